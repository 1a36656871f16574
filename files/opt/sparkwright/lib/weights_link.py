"""Gives files of a bundle on this machine a second name among the weights: no second copy.

    weights_link.py HELD DIR USER     on standard input a JSON list of paths, the same below both

Runs as root. A file that cannot be linked (another file system, or not there) is left to the
weights agent, which fetches and proves it; directories that are made belong to USER.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path


def main(argv: list[str]) -> int:
    """Link what can be linked; says how many were not."""
    held, place, user = Path(argv[0]), Path(argv[1]), argv[2]
    left = [name for name in json.load(sys.stdin) if not link(held / name, place, name, user)]
    if left:
        print(f"{place}: {len(left)} files are not linked from {held}, such as {left[0]}")
    return 0


def link(source: Path, place: Path, name: str, user: str) -> bool:
    """Link one file over whatever has its name; False when that is not possible."""
    target = place / name
    for folder in reversed(target.relative_to(place).parents[:-1]):
        if not (place / folder).is_dir():
            (place / folder).mkdir()
            shutil.chown(place / folder, user, user)
    beside = target.with_name(f".sparkwright-{target.name}.tmp")
    beside.unlink(missing_ok=True)
    try:
        os.link(source, beside, follow_symlinks=False)
        beside.replace(target)
    except OSError as error:
        print(f"{source}: not linked: {error.strerror}", file=sys.stderr)
        return False
    # Two names of one file already: rename(2) does nothing then and leaves both.
    beside.unlink(missing_ok=True)
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
