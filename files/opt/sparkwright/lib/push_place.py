"""A bundle on the machine: what of it is here, and files that arrived put where they belong.

    push_place.py state DIR [ADDRESS ...]
                                 print JSON: have (path -> first digits of its sha256), free and
                                 arrived (bytes), whole (contents that arrived and have no name
                                 yet), parts (content -> bytes of it), own (which of the addresses
                                 are this machine's)
    push_place.py prepare DIR    make the directories; hash what is here without a stamp
    push_place.py settle DIR     name what arrived, remove what no longer belongs, write stamps

prepare and settle run as root and read on standard input {"files": [[path, size, sha256], …]}:
everything that belongs here. They travel as text: nothing of ours is installed yet.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import sys
from pathlib import Path

SHOWN = 16  # digits: the laptop compares them with those of its manifest
DIGITS, PART = 64, ".part"  # names of what arrives: its sha256, and while it is not whole
Wanted = list[tuple[str, int, str]]


class Place:
    """DIR and our own part of it.

    + stamps: path -> size, mtime (ns), inode, sha256 as they were when the hash was right
    """

    def __init__(self, top: Path) -> None:
        self.top, self.own = top, top / ".sparkwright"
        self.incoming = self.own / "incoming"
        self.file = self.own / "stamps.json"
        try:
            self.stamps: dict[str, list[object]] = json.loads(self.file.read_text())
        except (OSError, ValueError):  # none yet, or cut by a power failure: hashed anew then
            self.stamps = {}

    def look(self, name: str) -> list[object] | None:
        """Size, mtime and inode of a regular file; not ctime: a second name changes that."""
        try:
            info = (self.top / name).lstat()
        except OSError:
            return None
        return [info.st_size, info.st_mtime_ns, info.st_ino]

    def right(self, name: str) -> bool:
        """Whether a file is as it was when its hash was right."""
        row = self.stamps.get(name)
        return row is not None and row[:3] == self.look(name)

    def save(self) -> None:
        """Write the stamps in one step.

        Nothing is synced: a file that a power failure took has another size then, and everything
        is hashed again where it is used.
        """
        beside = self.file.with_suffix(".new")
        beside.write_text(json.dumps(self.stamps, sort_keys=True))
        beside.replace(self.file)

    def stamp(self, name: str, sha256: str) -> None:
        """A file whose hash is right."""
        self.stamps[name] = [*(self.look(name) or []), sha256]


def state(place: Place, addresses: list[str]) -> dict[str, object]:
    """What the laptop asks in both of its phases; milliseconds."""
    have = {n: str(row[3])[:SHOWN] for n, row in place.stamps.items() if place.right(n)}
    top = next(p for p in (place.top, *place.top.parents) if p.exists())
    found = place.incoming.glob("*") if os.access(place.incoming, os.R_OK) else ()
    sizes = {path.name: path.stat().st_size for path in found if path.is_file()}
    disk = os.statvfs(top)
    return {
        "have": have,
        "free": disk.f_bavail * disk.f_frsize,
        "arrived": sum(sizes.values()),
        "whole": [name for name in sizes if len(name) == DIGITS],
        "parts": {n.removesuffix(PART): size for n, size in sizes.items() if n.endswith(PART)},
        "own": [address for address in addresses if own(address)],
    }


def own(address: str) -> bool:
    """Whether an address is this machine's: only such a one can be listened on."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family) as probe:
            probe.bind((address, 0))
    except OSError:
        return False
    return True


def prepare(place: Place, wanted: Wanted) -> None:
    """Directories, and stamps for files that are right without one."""
    for folder in (place.top, place.own, place.incoming):
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    # The account that logs in writes there and nowhere else.
    os.chown(place.incoming, int(os.environ.get("SUDO_UID", 0)), int(os.environ.get("SUDO_GID", 0)))
    place.incoming.chmod(0o700)
    for path in (p for p in place.incoming.iterdir() if not p.name.startswith("lock")):
        if path.name.removesuffix(PART) not in {row[2] for row in wanted}:
            path.unlink()
    unsure = [row for row in wanted if not place.right(row[0])]
    for name, size, sha256 in unsure:
        found = place.look(name)
        if found and found[0] == size and hashed(place.top / name) == sha256:
            place.stamp(name, sha256)
    place.save()


def hashed(path: Path) -> str:
    """sha256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def settle(place: Place, wanted: Wanted) -> list[str]:
    """Names of files that are still not here. Raises OSError."""
    uses: dict[str, list[tuple[str, int]]] = {}
    for name, size, sha256 in wanted:
        if not place.right(name) or place.stamps[name][3] != sha256:
            uses.setdefault(sha256, []).append((name, size))
    for sha256, targets in uses.items():
        source = place.incoming / sha256
        if source.is_file() and source.stat().st_size == targets[0][1]:
            os.chown(source, 0, 0)
            source.chmod(0o644)
            for name, _ in targets[1:]:
                put(place, source, name)
                place.stamp(name, sha256)
            named(place, source, targets[0][0])
            place.stamp(targets[0][0], sha256)
    belong = {row[0] for row in wanted}
    for name in sorted(place.stamps.keys() - belong):
        (place.top / name).unlink(missing_ok=True)
        del place.stamps[name]
    place.save()
    return [name for name, _, _ in wanted if not place.right(name)]


def put(place: Place, source: Path, name: str) -> None:
    """One more name for a file that arrived, in one step."""
    beside = place.own / "named"
    beside.unlink(missing_ok=True)
    os.link(source, beside)
    named(place, beside, name)


def named(place: Place, source: Path, name: str) -> None:
    """The last name of a file; its directory is made where it is missing."""
    target = place.top / name
    try:
        source.replace(target)
    except FileNotFoundError:
        target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        source.replace(target)


def main(argv: list[str]) -> int:
    """Run one command; see the module's docstring."""
    os.umask(0o022)
    place = Place(Path(argv[1]))
    if argv[0] == "state":
        print(json.dumps(state(place, argv[2:])))
        return 0
    wanted = [(str(n), int(s), str(h)) for n, s, h in json.load(sys.stdin)["files"]]
    try:
        if argv[0] == "prepare":
            prepare(place, wanted)
            return 0
        left = settle(place, wanted)
    except OSError as error:
        print(f"push: {error.filename or place.top}: {error.strerror}", file=sys.stderr)
        return 1
    if left:
        print(f"push: {len(left)} files are not here, such as {left[0]}; run it again",
              file=sys.stderr)  # fmt: skip
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
