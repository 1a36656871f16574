"""Which files of a bundle's hub/ a library on this machine has: they need not travel.

On standard input a JSON list [[path in the bundle, size, [places in the library], note], …]; prints
a JSON list of paths. note: REFUSED of the weights agent (weights_library.py), which names files of
the library whose hash was wrong, as they looked then. It travels as text, before our programs do.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from stat import S_ISREG
from typing import Any


def looks(path: str) -> list[int] | None:
    """[size, mtime_ns] of a regular file."""
    try:
        found = Path(path).lstat()
    except OSError:
        return None
    return [found.st_size, found.st_mtime_ns] if S_ISREG(found.st_mode) else None


def noted(path: str) -> dict[str, Any]:
    """Path in the library -> what was noted about it."""
    try:
        found: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
        return found if isinstance(found, dict) else {}
    except (OSError, ValueError):
        return {}


def has(size: int, places: list[str], note: str) -> bool:
    """Whether a file of that size is there, and was not found wrong since it changed last."""
    bad = noted(note)
    for place in places:
        seen = looks(place)
        if seen:  # the first one that is there is the one that the agent judges
            return seen[0] == size and (bad.get(place) or {}).get("looks") != seen
    return False


def main() -> None:
    """See the module's docstring."""
    rows = json.load(sys.stdin)
    print(json.dumps([path for path, size, places, note in rows if has(size, places, note)]))


if __name__ == "__main__":
    main()
