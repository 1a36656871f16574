"""`make drift`: every row of the matrix on one converged lab.

python -m tests.drift [--only TEXT]...    rows whose name holds one of the texts
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.lab.host import LabError
from tests.lab.lab import start_lab

from . import judge, rows_build, rows_files, rows_fleet, rows_system, rows_units
from .row import Result, Row
from .site import Site

ROWS: tuple[Row, ...] = (
    *rows_units.ROWS,
    *rows_files.ROWS,
    *rows_system.ROWS,
    *rows_build.ROWS,
    *rows_fleet.ROWS,
)


def tell(result: Result, seconds: float) -> None:
    """One line a row, and what was wrong with it."""
    word = "ok" if result.good else "FAILED"
    print(f"{word:6} {seconds:5.0f} s  {result.row.way:7}  {result.row.name}", flush=True)
    for note in result.notes:
        print(f"       {note}", flush=True)


def matrix(site: Site, rows: Sequence[Row]) -> list[Result]:
    """Converge once, then every row in turn."""
    done = site.converge()
    if done.rc:
        raise LabError(f"the first converge failed:\n{done.problems}\n{done.log[-6000:]}")
    results = []
    for row in rows:
        began = time.monotonic()
        results.append(judge.run(site, row))
        tell(results[-1], time.monotonic() - began)
    return results


def summary(results: Sequence[Result]) -> str:
    """The line that machines read."""
    return (
        f"RESULT drift cases={len(results)} found={sum(r.found for r in results)} "
        f"repaired={sum(r.repaired for r in results)} "
        f"untouched_others={sum(r.untouched for r in results)}"
    )


def main(argv: Sequence[str]) -> int:
    """Boot, converge, damage and mend, take everything down; exit 1 unless every row is good."""
    parser = argparse.ArgumentParser(prog="python -m tests.drift", description=__doc__)
    parser.add_argument("--only", action="append", default=[], metavar="TEXT")
    only = parser.parse_args(argv).only
    rows = [row for row in ROWS if not only or any(text in row.name for text in only)]
    try:
        with start_lab(machines=2) as lab, TemporaryDirectory() as place:
            results = matrix(Site(lab, Path(place)), rows)
    except LabError as error:
        print(error, file=sys.stderr)
        return 1
    for result in results:
        if not result.good:
            print(f"FAILED {result.row.name}: {' | '.join(result.notes)[:600]}")
    print(summary(results))
    return 0 if results and all(result.good for result in results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
