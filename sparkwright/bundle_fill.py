"""Fills a bundle from the lock: looks, says how much comes, fetches, writes the manifest last."""

from __future__ import annotations

import hashlib
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from sparkwright.bundle_apt import FILES, write_repository
from sparkwright.bundle_bring import Bring
from sparkwright.bundle_hash import Want
from sparkwright.bundle_image_check import wrong_archive
from sparkwright.bundle_images import Blobs, Image, image_proof
from sparkwright.bundle_key import Key
from sparkwright.bundle_layout import LOCK, MANIFEST, SUMS, Manifest, put, settle
from sparkwright.bundle_plan import Disk, Part, parts_of, wheel_parts
from sparkwright.bundle_progress import shown
from sparkwright.bundle_wheels import index_pages
from sparkwright.bundle_work import DOWNLOADS
from sparkwright.deb_index import Deb
from sparkwright.errors import Problem, Problems, SparkwrightError
from sparkwright.needs import Needs
from sparkwright.needs_parts import absorb

# Beside the missing bytes: index files, stamps, and what a file system keeps for itself.
MARGIN: Final = 64 * 10**6


@dataclass(frozen=True)
class Options:
    """How to fill.

    + deep: hash what is there instead of believing its stamps
    + token: for the Hub; hub: address in the lock -> address that is asked instead
    + tell: prints a line for people
    """

    lock_text: bytes
    key: Key
    deep: bool = False
    jobs: int = DOWNLOADS
    token: str | None = None
    hub: Mapping[str, str] = field(default_factory=dict)
    registry: Blobs = field(default_factory=Blobs)
    tell: Callable[[str], None] = print


class Filling:
    """One run over one bundle, whose lock the caller holds."""

    def __init__(self, top: Path, needs: Needs, debs: Sequence[Deb], options: Options) -> None:
        self.top, self.needs, self.debs, self.options = top, needs, debs, options
        self.changed = False
        self.stop = threading.Event()
        self.problems = Problems()
        self.disk = Disk(top, options.deep, self.stop)
        self.bring = Bring(
            self.disk, options.registry, options.jobs, self.stop, self.problems, options.tell
        )

    def run(self) -> None:
        """Fill; `changed` tells whether anything was. Raises SparkwrightError."""
        try:
            missing, images = self._look()
            self.problems.raise_if_any()
            self._announce(missing, images)
            if missing or images:
                self._forget()
                self.bring.all(missing, images)
            self.problems.raise_if_any()
            self.changed = self._finish()
        finally:
            self.stop.set()
            self.disk.stamps.save()

    def _look(self) -> tuple[list[Part], list[Image]]:
        """What is missing; an image counts when one of its layers has to come."""
        known = parts_of(self.needs, self.debs, self.options.token, self.options.hub)
        self.disk.look(known)
        kept, wheels = wheel_parts(self.needs.sets, self.needs.target, self.disk, self.problems)
        for part in kept:
            self.disk.put(part.path, part.want.proof, str(part.want.sha256))
        images = [image for item in self.needs.images if (image := self._image(item.name))]
        missing = [part for part in known if part.path not in self.disk.have]
        for path, what in sorted(self.disk.wrong.items()):
            self.options.tell(f"{path}: {what}; it is fetched again")
        return [*missing, *wheels], images

    def _image(self, name: str) -> Image | None:
        """An image whose archive is not there."""
        item = next(item for item in self.needs.images if item.name == name)
        part = Part(f"images/{name}.tar", Want(f"artifacts/{name}", "", None, image_proof(item)))
        if self.disk.image(part, lambda path: wrong_archive(path, item, self.stop)):
            return None
        try:
            return self.options.registry.image(item)
        except SparkwrightError as error:
            absorb(self.problems, error)
            return None

    def _announce(self, missing: Sequence[Part], images: Sequence[Image]) -> None:
        """Say how much will come, and refuse when it does not fit."""
        sizes = [max((p.want.size or 0) - self.bring.begun(p.path), 0) for p in missing]
        blobs = [sum(blob.size for blob in image.blobs) for image in images]
        unknown = sum(part.want.size is None for part in missing)
        total = sum(sizes) + sum(blobs)
        there = sum(entry.size for entry in self.disk.have.values())
        count = len(missing) + len(images)
        more = f" and {unknown} of unknown size" if unknown else ""
        comes = f"{count} come ({shown(total)}{more})" if count else "nothing is missing"
        have = f"{len(self.disk.have)} files ({shown(there)}) are there"
        self.options.tell(f"{self.top}: {have}; {comes}")
        # An image is there twice while its archive is written.
        wanted = total + max(blobs, default=0) + MARGIN * bool(missing or images)
        free = shutil.disk_usage(self.top).free
        if wanted > free:
            what = f"{shown(wanted)} are needed, {shown(free)} are free; nothing was fetched"
            hint = f"free {shown(wanted - free)} more, or name another place"
            raise SparkwrightError(str(Problem(str(self.top), what, hint)))

    def _forget(self) -> None:
        """No manifest while the bundle is not whole: a cut one must not be taken for done."""
        for name in (MANIFEST, SUMS):
            (self.top / name).unlink(missing_ok=True)

    def _finish(self) -> bool:
        """Indexes, then the manifest; whether anything differs from before."""
        self._index()
        made = Manifest(
            hashlib.sha256(self.options.lock_text).hexdigest(),
            self.needs.target.as_data(),
            tuple(self.disk.have[path] for path in sorted(self.disk.have)),
        )
        return settle(self.top, made, self.disk.stamps, self.options.tell)

    def _index(self) -> None:
        """The lock's copy, the wheels' index and the apt repository's, where they differ."""
        texts = {LOCK: self.options.lock_text}
        wheels = [
            (path.removeprefix("wheels/"), entry.sha256)
            for path, entry in self.disk.have.items()
            if path.startswith("wheels/")
        ]
        texts |= {f"simple/{name}": text.encode() for name, text in index_pages(wheels).items()}
        for name, text in texts.items():
            put(self.top / name, text)
            self.disk.put_text(name)
        if self.needs.debs:
            write_repository(self.top / "apt", self.debs, self.needs.target, self.options.key)
            for name in FILES:
                self.disk.put_text(f"apt/{name}")
