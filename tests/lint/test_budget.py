"""Size: a thousand ordinary files in one run stay below 200 MB. (Time is measured, not tested.)"""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

from tests.lint import good_files

PROGRAM = """
import resource, sys
from sparkwright.cli_lint import main
main(["--ignore-unknown", *sys.argv[1:]])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


def test_a_thousand_files(tmp_path: Path) -> None:
    names = []
    for number, source in zip(range(1000), itertools.cycle(good_files.paths()), strict=False):
        path = tmp_path / str(number) / source.relative_to(good_files.HERE)
        path.parent.mkdir(parents=True)
        path.write_bytes(source.read_bytes())
        names.append(str(path))
    words = [sys.executable, "-c", PROGRAM, *names]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert int(done.stdout.splitlines()[-1]) <= 200
    assert "1000 file(s)" in done.stdout
