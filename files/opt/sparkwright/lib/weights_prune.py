"""Removes snapshots that nobody claims, least recently used first; or only says which.

Runs as `python3 -c <this text> <spec>` over SSH, as root. SPEC is that of weights_store.py with
{"apply": bool, "older_s": seconds without use or null, "want_free": bytes that shall be free or
null}. Prints what weights_store.py says, with "chosen": [directories] and "removed": [{"directory",
"frees", "why"}]; why is empty when it is gone. Nothing outside of the directory of weights is
touched: every step below it is opened without following links.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CLOSED = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Refused(Exception):
    """A snapshot that stays; the message says why."""


def choose(said: dict[str, Any], spec: dict[str, Any], now: float) -> list[dict[str, Any]]:
    """Snapshots without a claim, least recently used first, as many as are asked for."""
    free = [row for row in said["snapshots"] if not row["claims"]]
    if spec["older_s"] is not None:
        free = [row for row in free if now - row["last_use"] >= spec["older_s"]]
    free.sort(key=lambda row: (row["last_use"], row["directory"]))
    if spec["want_free"] is None:
        return free
    chosen, have = [], said["free"]
    for row in free:
        if have >= spec["want_free"]:
            break
        chosen.append(row)
        have += row["frees"]
    return chosen


@contextlib.contextmanager
def opened(root: Path, parts: tuple[str, ...]) -> Iterator[list[int]]:
    """Descriptors of the root and every directory below it; a link on the way is refused."""
    chain: list[int] = []
    try:
        chain.append(os.open(root, CLOSED))
        for part in parts:
            chain.append(os.open(part, CLOSED, dir_fd=chain[-1]))
        yield chain
    finally:
        for descriptor in chain:
            os.close(descriptor)


def remove(root: Path, place: Path, spec: dict[str, Any]) -> None:
    """Remove one snapshot: locked, looked at again, renamed, deleted. Raises Refused, OSError."""
    parts = place.relative_to(root).parts
    if len(parts) < 2 or ".." in parts:
        raise Refused("is no snapshot")
    with opened(root, parts) as chain:
        if len({os.fstat(descriptor).st_dev for descriptor in chain}) > 1:
            raise Refused("another file system is mounted there")
        lock(chain[-1])
        again(place, spec)
        gone = f".sparkwright-prune-{parts[-1]}"
        os.rename(parts[-1], gone, src_dir_fd=chain[-2], dst_dir_fd=chain[-2])
        os.fsync(chain[-2])
        shutil.rmtree(gone, dir_fd=chain[-2])
        empty(chain, parts)


def lock(snapshot: int) -> None:
    """Keep downloads out until this process ends. Raises Refused while one is at work."""
    import weights_store

    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(weights_store.LOCK, flags, 0o644, dir_fd=snapshot)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Refused("a weights job is at work there") from None


def again(place: Path, spec: dict[str, Any]) -> None:
    """Who came meanwhile? Raises Refused."""
    import weights_store

    seen = weights_store.measure(place)
    if seen["mounted"]:
        raise Refused("another file system is mounted in it")
    holders = weights_store.processes(dict.fromkeys(seen["inodes"], place), [place])[place]
    holders += weights_store.units([place])[place]
    if holders:
        raise Refused(f"is used by {', '.join(holders)}")


def empty(chain: list[int], parts: tuple[str, ...]) -> None:
    """Remove the repository's directories when nothing is left in them; never the root."""
    for depth in range(len(parts) - 2, -1, -1):
        try:
            os.rmdir(parts[depth], dir_fd=chain[depth])
        except OSError:  # something is in it: it stays
            return


def finish(root: Path, cut: Path) -> None:
    """Delete what an interrupted prune has renamed already. Raises OSError."""
    parts = cut.relative_to(root).parts
    with opened(root, parts[:-1]) as chain:
        shutil.rmtree(parts[-1], dir_fd=chain[-1])
        empty(chain, parts)


def prune(spec: dict[str, Any], now: float) -> dict[str, Any]:
    """Choose, and with `apply` remove."""
    import weights_store

    said, root = weights_store.look(spec), Path(spec["root"]).resolve()
    chosen = choose(said, spec, now)
    said |= {"chosen": [row["directory"] for row in chosen], "removed": []}
    if not spec["apply"]:
        return said
    for text in said["cut"]:
        said["removed"].append({"directory": text, "frees": 0, "why": ""})
        with _told(said["removed"][-1]):
            finish(root, Path(text))
    for row in chosen:
        said["removed"].append({"directory": row["directory"], "frees": row["frees"], "why": ""})
        with _told(said["removed"][-1]):
            remove(root, Path(row["directory"]), spec)
    return said


@contextlib.contextmanager
def _told(row: dict[str, Any]) -> Iterator[None]:
    try:
        yield
    except Refused as refused:
        row["why"] = str(refused)
    except OSError as error:
        row["why"] = f"{error.filename}: {error.strerror}"


def main(argv: list[str]) -> int:
    """Print what was found and done."""
    spec = json.loads(argv[0])
    sys.path.insert(0, spec["lib"])
    print(json.dumps(prune(spec, time.time())))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
