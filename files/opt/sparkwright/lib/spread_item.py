"""One thing that machines give one another: a set of files in packs, known by a key.

DIR/<key>.json, readable by the service account alone, written by the laptop or by a job of ours:

    {"token": text, "dirs": [places, the first one that has a file wins],
     "packs": [[[path, size], …], …], "manifest": path of a text for receivers, or ""}

A pack is what one request brings: one large file, or small ones in a row. Packs have the same
order on every machine. A pack is there when each of its files is, regular and of its size: files
get their names only when they are whole, and who receives proves every one of them by hash.
"""

from __future__ import annotations

import contextlib
import json
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from spread_behind import forget

# Seconds for which one look at the disk is good: thirty machines may ask at once (our choice).
LOOK_S = 0.1
# Seconds without a question after which the server ends (our choice: receivers ask all the time).
IDLE_S = 90.0
# Streams at once: more than a receiver has, so that several can be served (our choice).
STREAMS = 8


class Item:
    """What one machine holds of it, looked at when somebody asks."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.token = str(data["token"])
        self.dirs = [Path(name) for name in data["dirs"]]
        self.packs = [[(str(p), int(s)) for p, s in pack] for pack in data["packs"]]
        self.manifest = Path(data["manifest"]) if data.get("manifest") else None
        self.sending: set[int] = set()
        self.lock = threading.Lock()
        self._have: set[int] = set()
        self._looked = 0.0

    def have(self) -> list[int]:
        """Numbers of the packs that are here."""
        with self.lock:
            if time.monotonic() - self._looked > LOOK_S:
                for number, pack in enumerate(self.packs):
                    if number not in self._have and all(self.find(p, s) for p, s in pack):
                        self._have.add(number)
                self._looked = time.monotonic()
            return sorted(self._have)

    def forget(self, number: int) -> None:
        """A file of the pack is gone: another run replaces it."""
        with self.lock:
            self._have.discard(number)

    def find(self, path: str, size: int) -> Path | None:
        """A regular file of that size; a link is refused, as everywhere with weights."""
        for top in self.dirs:
            place = top / path
            try:
                found = place.lstat()
            except OSError:
                continue
            if stat.S_ISREG(found.st_mode) and found.st_size == size:
                return place
        return None

    def files(self) -> Iterator[Path]:
        """Every file that is here."""
        for pack in self.packs:
            for path, size in pack:
                if place := self.find(path, size):
                    yield place


class Items:
    """All items of a directory; a file that changed is read anew."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._known: dict[str, tuple[int, Item]] = {}

    def get(self, key: str) -> Item | None:
        """The item of a key; None when there is none."""
        place = self.folder / f"{key}.json"
        try:
            changed = place.stat().st_mtime_ns
            known = self._known.get(key)
            if known is None or known[0] != changed:
                item = Item(json.loads(place.read_text()))
                known = self._known[key] = (changed, item)
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return known[1]

    def newest(self) -> float:
        """When an item was written last, as time.time(); 0 without any."""
        times = [p.stat().st_mtime for p in self.folder.glob("*.json") if p.exists()]
        return max(times, default=0.0)

    def all(self) -> list[Item]:
        """Every item that can be read."""
        found = [self.get(place.stem) for place in sorted(self.folder.glob("*.json"))]
        return [item for item in found if item]


class Shared:
    """What all addresses have in common."""

    def __init__(self, folder: Path) -> None:
        self.items = Items(folder)
        self.streams = threading.BoundedSemaphore(STREAMS)
        self.asked = time.monotonic()
        self.ended = threading.Event()

    def idle(self) -> bool:
        """Whether nobody has asked, and nothing was added, for a while."""
        quiet = time.monotonic() - self.asked > IDLE_S
        return quiet and time.time() - self.items.newest() > IDLE_S


def drop(items: Items) -> None:
    """Leave no page cache behind: on GB10 it counts as used GPU memory (unsloth#10705)."""
    for place in (place for item in items.all() for place in item.files()):
        with contextlib.suppress(OSError), place.open("rb", buffering=0) as file:
            forget(file.fileno(), 0, 0)
