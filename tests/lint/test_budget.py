"""Size: a thousand ordinary files in one run stay below 200 MB. (Time is measured, not tested.)"""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

from tests.lint import good_files

# Not getrusage: its maximum counts what this process had before exec, which is pytest's size.
PROGRAM = """
import re, sys
from pathlib import Path
from sparkwright.cli_lint import main
main(["--ignore-unknown", *sys.argv[1:]])
print(int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) // 1024)
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
