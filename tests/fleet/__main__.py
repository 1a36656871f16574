"""`make test-fleet`: everything about several sparks, and one line that says how.

A part counts as `ok` (the rollout: `yes`) when each of its tests ran and passed here, `absent`
when its tests are not there, and else `FAILED`. `spread_survived` counts what may go wrong while
machines copy from one another, and how much of it the others survived.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree

HERE = Path(__file__).parent
STOPPED = "rollout_stopped"
# Part of the line -> its test files, all of which have to be there.
PARTS = {
    "cluster": ("test_fabric.py", "test_pair.py", "test_unreachable.py"),
    STOPPED: ("test_rollout.py",),
    "lock": ("test_lock.py",),
}
MANY, MACHINES = "test_many.py", 32
SPREAD = "test_spread*.py"  # weights, builds and environments; a file for each other kind
WORD = {True: "ok", False: "FAILED", None: "absent"}


def outcomes(*names: str) -> dict[str, bool] | None:
    """Test -> whether it passed; None when one of the files is not there."""
    files = [HERE / name for name in names]
    if not all(file.is_file() for file in files):
        return None
    with TemporaryDirectory() as place:
        report = Path(place) / "report.xml"
        words = [sys.executable, "-m", "pytest", "-q", f"--junit-xml={report}", *map(str, files)]
        subprocess.run(words, check=False)
        if not report.is_file():
            return {"pytest": False}
        cases = ElementTree.parse(report).iter("testcase")  # noqa: S314 - as above
        return {f"{c.get('classname')}.{c.get('name')}": not len(c) for c in cases}


def judged(found: dict[str, bool] | None) -> bool | None:
    """Whether all passed; None when there was nothing to run."""
    return None if found is None else bool(found) and all(found.values())


def main() -> int:
    """Run everything; 1 unless every part is there and passed."""
    spread = outcomes(*sorted(file.name for file in HERE.glob(SPREAD))) or {}
    many = judged(outcomes(MANY))
    parts = {name: judged(outcomes(*files)) for name, files in PARTS.items()}
    words = [f"machines={MACHINES if many else WORD[many]}"]
    good = WORD | {True: "yes"}
    words += [f"{n}={(good if n == STOPPED else WORD)[found]}" for n, found in parts.items()]
    words.append(f"spread_survived={sum(spread.values())}/{len(spread)}")
    print("RESULT fleet", *words)
    return 0 if many and all(parts.values()) and spread and all(spread.values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
