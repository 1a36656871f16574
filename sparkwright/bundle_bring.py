"""Fetches what a bundle lacks: files and layers at once, then each image's archive."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

import requests

from sparkwright.bundle_fetch import DiskFull, fetch
from sparkwright.bundle_images import Blobs, Image, assemble
from sparkwright.bundle_layout import OURS, PARTIAL
from sparkwright.bundle_plan import Disk, Part
from sparkwright.bundle_progress import Shown
from sparkwright.bundle_work import run_all
from sparkwright.errors import Problem, Problems

BLOBS: Final = f"{OURS}/blobs"


@dataclass
class Bring:
    """One run's downloads.

    + disk: learns what was proved; jobs: downloads at once
    + tell: prints a line for people
    """

    disk: Disk
    registry: Blobs
    jobs: int
    stop: threading.Event
    problems: Problems
    tell: Callable[[str], None]
    _local: threading.local = field(default_factory=threading.local)

    @property
    def top(self) -> Path:
        """The bundle."""
        return self.disk.top

    def partial(self, path: str) -> Path:
        """Where the unfinished part of a file lies."""
        return self.top / PARTIAL / hashlib.sha256(path.encode()).hexdigest()[:32]

    def begun(self, path: str) -> int:
        """Bytes of a file that are there already."""
        place = self.partial(path)
        return place.stat().st_size if place.exists() else 0

    def all(self, missing: Sequence[Part], images: Sequence[Image]) -> None:
        """Bring files and images; problems are collected. Raises KeyboardInterrupt."""
        parts = [(part, True) for part in missing]
        for image in images:
            parts += [
                (Part(f"{BLOBS}/{blob.hex}", self.registry.want(image.artifact, blob)), False)
                for blob in image.blobs
                if not self._has_blob(blob.hex, blob.size)
            ]
        # The largest first: otherwise one connection ends long after the others.
        parts.sort(key=lambda item: -(item[0].want.size or 0))
        with Shown(sum(part.want.size or 0 for part, _ in parts), len(parts)) as progress:
            work, found = partial(self._fetch, progress), Problems()
            run_all(parts, work, self.jobs, self.stop, found)
        for problem in sorted(found, key=str):  # in whichever order they ended
            self.problems.add(problem.where, problem.what, problem.hint)
        for image in images:
            if not self.stop.is_set() and not len(self.problems):
                self._assemble(image)

    def _has_blob(self, name: str, size: int) -> bool:
        """A layer gets its name when it is proved, so its size tells."""
        path = self.top / BLOBS / name
        return path.is_file() and path.stat().st_size == size

    def _fetch(self, progress: Shown, item: tuple[Part, bool]) -> None:
        part, final = item
        if not hasattr(self._local, "session"):
            self._local.session = requests.Session()
            self._local.session.auth = lambda request: request  # .netrc has no say here
        dest, session = self.top / part.path, self._local.session
        place = self.partial(part.path)
        found = fetch(part.want, dest, place, session, self.stop, progress.came)
        if final:
            self.disk.put(part.path, part.want.proof, found.sha256)
        progress.finished(part.path)

    def _assemble(self, image: Image) -> None:
        self.tell(f"{image.path}: putting {len(image.blobs)} parts together")
        place = self.partial(image.path)
        try:
            (self.top / "images").mkdir(exist_ok=True)
            with place.open("wb") as out:
                sha256 = assemble(image, self.top / BLOBS, out, self.stop)
            place.replace(self.top / image.path)
        except OSError as error:
            where, what = f"{self.top}/{image.path}", f"{error.strerror}; its parts are kept"
            raise DiskFull(str(Problem(where, what, "free some space, run it again"))) from error
        self.disk.put(image.path, image.proof, sha256)
        for blob in image.blobs:
            (self.top / BLOBS / blob.hex).unlink(missing_ok=True)
