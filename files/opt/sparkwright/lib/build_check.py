"""The record of an installed build's files, and what differs from it later.

build_check.py ROOT     print a line of JSON for each build below a directory: is it as installed?
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

RECORD, FACTS = ".files.json", ".introspect.json"


def stat_of(directory: Path) -> dict[str, list[int]]:
    """Size, mtime and inode of every installed file."""
    found = {}
    for path in sorted(directory.rglob("*")):
        if path.is_file() and path.name not in (RECORD, FACTS, ".stamp", "BUILD.json"):
            info = path.lstat()
            found[str(path.relative_to(directory))] = [info.st_size, info.st_mtime_ns, info.st_ino]
    return found


def check(dest: str) -> int:
    """Compare the installed files with what was installed; prints JSON."""
    place = Path(dest)
    try:
        wanted = json.loads((place / RECORD).read_text())
        stamped = (place / ".stamp").read_text().strip() == place.resolve().name
    except (OSError, ValueError):
        wanted, stamped = {}, False
    if not stamped:
        print(json.dumps({"wrong": [f"{place}/.stamp: does not vouch for this build"]}))
        return 0
    have = stat_of(place)
    names = sorted(set(wanted) | set(have))
    wrong = [
        f"{place / n}: {'changed' if n in have else 'missing'}"
        for n in names
        if wanted.get(n) != have.get(n)
    ]
    print(json.dumps({"wrong": wrong, "unread": unread(place)}))
    return 0


def unread(place: Path) -> list[str]:
    """The file of what the build knows, when it is absent (an older build) or no such file."""
    try:
        whole = "flags" in json.loads((place / FACTS).read_text())
    except (OSError, ValueError):
        whole = False
    return [] if whole else [str(place / FACTS)]


def main(argv: list[str]) -> int:
    """Look at every build."""
    for stamp in sorted(Path(argv[0]).glob("*/.stamp")):
        check(str(stamp.parent))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
