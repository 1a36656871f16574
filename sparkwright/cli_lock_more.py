"""The parts of `sparkwright lock` that look at a fleet: packages, --check, --outdated."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from sparkwright.artifacts import load_lock
from sparkwright.bundle_layout import replace_text
from sparkwright.errors import Problems
from sparkwright.fleet import Fleet, load_fleet
from sparkwright.fleet_settings import settings_defaults
from sparkwright.lock_check import Question, check, needs_now, outdated
from sparkwright.lock_debs import changes, listed, resolve_debs
from sparkwright.lock_text import dump, header_of
from sparkwright.paths import PROJECT


def _question(
    path: Path, directories: Sequence[Path], fleet: Path | None, debs: Sequence[str]
) -> Question:
    defaults = settings_defaults(PROJECT / "group_data/all.py")
    found: Fleet | None = load_fleet(fleet, defaults) if fleet else None
    return Question(path, directories, found, defaults, debs)


def judge(
    path: Path,
    directories: Sequence[Path],
    fleet: Path | None,
    current: bool,
    debs: Sequence[str] = (),
) -> int:
    """--check, or --outdated (`current`). Raises SparkwrightError.

    Exit codes: 0 nothing, 1 something differs, 2 something could not be asked.
    """
    ask = _question(path, directories, fleet, debs)
    if not current:
        lines = check(ask)
        print("\n".join(lines) or f"{path.name}: covers the recipes")
        return 1 if lines else 0
    if fleet:
        os.environ["SPARKS_FILE"] = str(fleet.absolute())  # pyinfra is a child of ours
    differ, failed = outdated(ask, os.environ)
    if failed:
        print("\n".join(failed), file=sys.stderr)
    if not differ and not failed:
        more = "and what runs" if fleet else "(no fleet was named, so no machine was asked)"
        print(f"{path.name}: is what upstream has {more}")
    if differ:
        print("\n".join(differ))
    return 1 if differ else 2 if failed else 0


def packages(
    path: Path, directories: Sequence[Path], fleet: Path | None, debs: Sequence[str]
) -> int:
    """--debs: resolve the packages anew and say what moved. Raises SparkwrightError, OSError."""
    ask = _question(path, directories, fleet, debs)
    lock = load_lock(path)
    problems = Problems()
    needs = needs_now(ask, problems)
    if needs is None:
        problems.raise_if_any()
        return 2
    before = listed(lock, needs.target.debs)
    new = resolve_debs(lock, needs, debs, ask.fleet, print)
    replace_text(path, dump(new, header_of(path.read_text(encoding="utf-8"))))
    lines = changes(before, listed(new, needs.target.debs))
    size = new.artifacts[needs.target.debs].size or 0
    print("\n".join([*lines, f"{path.name}: {len(lines)} packages moved, {size} bytes in all"]))
    return 0
