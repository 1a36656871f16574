"""A directory tree (a build, an environment) for other machines, and from them.

    spread_tree.py offer DEST ITEM USER     token on standard input; lists DEST, writes ITEM and
                                            the list beside it, prints the list's sha256

The laptop takes that sha256 over its own connection and tells it to every receiver, so nobody on
the way can put another file in. Owner is root, modes, links and times are kept: Python trusts its
compiled files by the source's time.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from pathlib import Path
from typing import Any

from job_progress import Progress
from spread_job import Spread
from spread_link import Busy, Link
from spread_part import Part, settle
from spread_swarm import Swarm

# Each machine writes these for itself: they hold inodes, or vouch for the whole.
OWN = {".files.json", ".stamp"}
# Small files travel together up to this many bytes: an environment has 60,000 (our choice).
PACK_BYTES = 32 << 20
# Without a byte, and without anything to get, for so long: the source is gone (our choice).
HOPELESS_S = 20.0
THREADS = 4
Row = dict[str, Any]


class CopyError(Exception):
    """The tree cannot be had from others."""


def rows_of(top: Path) -> list[Row]:
    """Everything below a directory: folders, links, files with size, mode, time and sha256."""
    rows: list[Row] = []
    for place in sorted(top.rglob("*")):
        info = place.lstat()
        row: Row = {"path": str(place.relative_to(top)), "mode": stat.S_IMODE(info.st_mode)}
        if row["path"] in OWN:
            continue
        if place.is_symlink():
            row["link"] = str(place.readlink())
        elif place.is_dir():
            row["folder"] = True
        elif place.is_file():
            row |= {"size": info.st_size, "time": info.st_mtime_ns}
        rows.append(row)
    files = [row for row in rows if "size" in row]
    with ThreadPoolExecutor(THREADS) as pool:
        for row, found in zip(
            files, pool.map(lambda r: hashed(top / r["path"]), files), strict=True
        ):
            row["sha256"] = found
    return rows


def hashed(path: Path) -> str:
    """sha256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def packed(rows: list[Row]) -> list[list[Row]]:
    """The files in packs, the same on every machine."""
    packs: list[list[Row]] = []
    room = 0
    for row in (row for row in rows if "size" in row):
        if not packs or row["size"] > room:
            packs.append([])
            room = PACK_BYTES
        packs[-1].append(row)
        room -= row["size"]
    return packs


def tell(item: Path, user: str, token: str, dirs: list[Path], text: bytes) -> None:
    """Let the server give a tree; the list first, then the item, each in one step."""
    listed = item.with_suffix(".list")
    told = {
        "token": token,
        "dirs": [str(place) for place in dirs],
        "packs": [[[r["path"], r["size"]] for r in pack] for pack in packed(json.loads(text))],
        "manifest": str(listed),
    }
    for place, content in ((listed, text), (item, json.dumps(told).encode())):
        beside = place.with_name(f".{place.name}.{os.getpid()}")
        beside.touch(mode=0o600)
        shutil.chown(beside, user, user)
        beside.write_bytes(content)
        beside.replace(place)


def offer(dest: Path, item: Path, user: str, token: str) -> str:
    """List a tree and let the server give it; the sha256 of the list."""
    text = json.dumps(rows_of(dest), sort_keys=True).encode()
    tell(item, user, token, [dest], text)
    return hashlib.sha256(text).hexdigest()


def receive(spread: Spread, user: str, top: Path, dest: Path, progress: Progress) -> None:
    """Make `top` the tree that others have at `dest`. Raises CopyError or OSError.

    + dest: the name that `top` will have; both are served from
    """
    text = listed(spread)
    rows: list[Row] = json.loads(text)
    shutil.rmtree(top, ignore_errors=True)
    top.mkdir(parents=True)
    for row in rows:
        if "folder" in row:
            (top / row["path"]).mkdir(exist_ok=True)
    tell(spread.item, user, spread.token(), [top, dest], text)
    _bring(spread, rows, top, progress)
    for row in reversed(rows):  # folders after what is in them
        place = top / row["path"]
        if "link" in row:
            place.symlink_to(row["link"])
        else:
            place.chmod(row["mode"])
        if "time" in row:
            os.utime(place, ns=(row["time"], row["time"]))


def listed(spread: Spread) -> bytes:
    """The list that the laptop vouches for, from the first machine that has it.

    Raises CopyError.
    """
    wrong: list[str] = []
    for peer in spread.peers:
        try:
            text = Link(peer).manifest()
        except Busy:  # it receives the tree itself and has no list yet
            wrong.append(f"{peer.name}: has no list")
            continue
        except (OSError, HTTPException) as error:
            wrong.append(f"{peer.name}: {error}")
            continue
        if hashlib.sha256(text).hexdigest() == spread.manifest:
            return text
        wrong.append(f"{peer.name}: has another list")
    raise CopyError("; ".join(wrong[-3:]) or "no machine was named")


def _bring(spread: Spread, rows: list[Row], top: Path, progress: Progress) -> None:
    total = sum(row.get("size", 0) for row in rows)
    have = 0

    def count(came: int) -> None:
        nonlocal have
        have += came

    def look(swarm: Swarm) -> None:
        progress.say("copying", f"{have / 1e6:.0f} of {total / 1e6:.0f} MB", force=False)

    parts = [
        [Part(top / r["path"], _beside(top, r), r["size"], f"sha256:{r['sha256']}") for r in pack]
        for pack in packed(rows)
    ]
    began = time.monotonic()
    swarm = Swarm(spread.peers, parts, count, lambda: False, HOPELESS_S, look)
    swarm.run()
    shutil.rmtree(top / ".arriving", ignore_errors=True)
    if swarm.waiting:
        gone = "; ".join(f"{name}: {why}" for name, why, _ in swarm.lost())
        gone = gone or "no machine has the rest"
        raise CopyError(f"{len(swarm.waiting)} of {len(parts)} packs did not come: {gone}")
    settle(swarm.proofs)
    print(f"{total} bytes from other machines in {time.monotonic() - began:.1f} s", flush=True)


def _beside(top: Path, row: Row) -> Path:
    name = hashlib.sha256(row["path"].encode()).hexdigest()
    return top / ".arriving" / name[:2] / name


def main(argv: list[str]) -> int:
    """List a tree for others."""
    token = sys.stdin.readline().strip()
    print(offer(Path(argv[1]), Path(argv[2]), argv[3], token))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
