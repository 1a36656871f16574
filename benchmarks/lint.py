"""`sparkwright lint` on a thousand files: processor time and memory.

The files are the lint's own good ones (scripts, units, compose files, recipes) and the units that
we render, in turns. `python -m benchmarks.lint` measures these alone.
"""

from __future__ import annotations

import itertools
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.measure import Figure, timed
from sparkwright.paths import PROJECT

FILES = 1000
ROUNDS = 3
# Limits: what a pre-commit hook may take, and what a small machine has to spare.
CPU_S, RSS_MB = 2.0, 200.0
PROGRAM = """
import resource, sys
from sparkwright.cli_lint import main
main(["--ignore-unknown", "--format", "json", *sys.argv[1:]])
used = resource.getrusage(resource.RUSAGE_SELF)
print(used.ru_utime + used.ru_stime, used.ru_maxrss, file=sys.stderr)
"""


def ordinary(folder: Path) -> Iterator[Path]:
    """A thousand files, each in a directory of its own as on many machines."""
    good = PROJECT / "tests/lint/good"
    named = [(path, path.relative_to(good)) for path in sorted(good.rglob("*")) if path.is_file()]
    units = sorted((PROJECT / "tests/golden").glob("*.service"))
    named += [(path, path.relative_to(path.parent)) for path in units]
    for number, (source, name) in zip(range(FILES), itertools.cycle(named), strict=False):
        path = folder / str(number) / name
        path.parent.mkdir(parents=True)
        path.write_bytes(source.read_bytes())
        yield path


def figures(folder: Path) -> list[Figure]:
    """Time on the processor, Python's start included, and the largest resident size."""
    files = [str(path) for path in ordinary(folder / "lint")]
    argv = [sys.executable, "-c", PROGRAM, *files]
    # A BLOCK would end the program with 0 too: main() returns its code and is not asked for it.
    told = [timed(argv, {}).err.split()[-2:] for _ in range(ROUNDS)]
    seconds = statistics.median(float(cpu) for cpu, _ in told)
    size = statistics.median(float(kib) for _, kib in told)
    return [
        Figure("lint_1000", seconds, "s", CPU_S),
        Figure("lint_1000_rss", size * 1024 / 1e6, "MB", RSS_MB),
    ]


if __name__ == "__main__":
    with TemporaryDirectory(prefix="bench") as place:
        print("\n".join(map(str, figures(Path(place)))))
