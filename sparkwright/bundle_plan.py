"""What of a bundle is there and proved, and what has to come."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.tags import Tag

from sparkwright.bundle_hash import Want, hash_file
from sparkwright.bundle_layout import Entry, Stamps
from sparkwright.bundle_wheels import Pin, Wheel, locate, pins_of, rank_of
from sparkwright.bundle_work import cores, run_all
from sparkwright.deb_index import Deb
from sparkwright.errors import Problems, SparkwrightError
from sparkwright.needs import Needs
from sparkwright.needs_parts import File, WheelSet
from sparkwright.needs_target import Target


@dataclass(frozen=True)
class Part:
    """One file of a bundle and what it has to be; the address may be unknown yet ("")."""

    path: str
    want: Want


def parts_of(
    needs: Needs, debs: Sequence[Deb], token: str | None, hub: Mapping[str, str]
) -> list[Part]:
    """The files whose names are known from the lock alone: all but wheels and images.

    + token: for the Hub; hub: address in the lock -> address that is asked instead
    """
    found = [Part(item.path, _want(item, token, hub)) for item in needs.files]
    name = needs.debs.name if needs.debs else ""
    found += [
        Part(f"apt/{d.file}", Want(f"artifacts/{name}: {d.file}", d.url, d.size, d.sha256))
        for d in debs
    ]
    return found


def _want(item: File, token: str | None, hub: Mapping[str, str]) -> Want:
    url, headers = item.url, {}
    if item.hub:
        for old, new in hub.items():
            url = new + url.removeprefix(old) if url.startswith(f"{old}/") else url
        headers = {"Authorization": f"Bearer {token}"} if token else {}
    name = f"{item.artifact}: {item.path.rsplit('/', 1)[-1]}"
    return Want(name, url, item.size, item.sha256, item.git_sha1, headers)


class Disk:
    """The files of a bundle that are proved, by stamp or by hash.

    + have: path -> entry, as `look` found them; wrong: path -> what is wrong with it
    """

    def __init__(self, top: Path, deep: bool, stop: threading.Event) -> None:
        self.top, self.deep, self.stop = top, deep, stop
        self.stamps = Stamps.load(top)
        self.have: dict[str, Entry] = {}
        self.wrong: dict[str, str] = {}
        self.hashed = 0

    def look(self, parts: Iterable[Part]) -> None:
        """Prove what is there: by its stamp, else by its hash, many at once."""
        unsure = [part for part in parts if not self._stamped(part)]
        self._hash([part for part in unsure if (self.top / part.path).is_file()])

    def _stamped(self, part: Part) -> bool:
        info = _stat(self.top / part.path)
        if info is None or self.deep:
            return False
        sha256 = self.stamps.sha256(part.path, info, part.want.proof)
        if sha256 is not None:
            self.have[part.path] = Entry(part.path, info.st_size, sha256)
        return sha256 is not None

    def _hash(self, parts: list[Part]) -> None:
        problems = Problems()
        # The largest first: otherwise one thread ends long after the others.
        parts.sort(key=lambda part: -(_size(self.top / part.path)))
        run_all(parts, self._prove, cores(), self.stop, problems)
        problems.raise_if_any()

    def _prove(self, part: Part) -> None:
        path = self.top / part.path
        try:
            size = path.stat().st_size
            if part.want.size not in (None, size):
                self.wrong[part.path] = f"has {size} bytes, not {part.want.size}"
                return
            found = hash_file(path, part.want, self.stop)
        except OSError as error:
            raise SparkwrightError(f"{path}: {error.strerror}") from error
        self.hashed += found.size
        if found.proves(part.want):
            self.put(part.path, part.want.proof, found.sha256)
        else:
            expected = part.want.sha256 or part.want.git_sha1
            self.wrong[part.path] = f"has hash {found.told}, not {expected}"

    def put(self, path: str, proof: str, sha256: str) -> None:
        """A file was proved just now."""
        info = (self.top / path).stat()
        self.stamps.put(path, info, sha256, proof)
        self.have[path] = Entry(path, info.st_size, sha256)

    def put_text(self, path: str) -> None:
        """A small file of ours, which is its own proof."""
        found = hash_file(self.top / path, Want(path, "", None, None), self.stop)
        self.have[path] = Entry(path, found.size, found.sha256)

    def image(self, part: Part, check: Callable[[Path], str]) -> bool:
        """Whether an image's archive is there, by its stamp or by every layer's hash."""
        path = self.top / part.path
        if self._stamped(part):
            return True
        if not path.is_file():
            return False
        wrong = check(path)
        if wrong:
            self.wrong[part.path] = wrong
            return False
        self.put(part.path, part.want.proof, hash_file(path, part.want, self.stop).sha256)
        return True

    def wheels(self) -> dict[str, str]:
        """sha256 -> name of the files in wheels/, hashed where no stamp vouches for them."""
        folder = self.top / "wheels"
        names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
        found: dict[str, str] = {}

        def prove(name: str) -> None:
            path = f"wheels/{name}"
            info = (self.top / path).stat()
            sha256 = None if self.deep else self.stamps.known(path, info)
            if sha256 is None:
                told = hash_file(self.top / path, Want(path, "", None, None), self.stop)
                sha256 = told.sha256
                self.hashed += told.size
            found[sha256] = name

        run_all(names, prove, cores(), self.stop, Problems())
        return found


def wheel_parts(
    sets: Sequence[WheelSet], target: Target, disk: Disk, problems: Problems
) -> tuple[list[Part], list[Part]]:
    """(wheels that are there, wheels that have to come); the index is asked for these alone."""
    there = disk.wheels()
    kept: dict[str, Part] = {}
    open_sets = []
    for wheels in sets:
        tags = target.tags(wheels.python)
        chosen = [(pin, _there(pin, there, tags)) for pin in pins_of(wheels, target)]
        for _, hit in chosen:
            if hit:
                path = f"wheels/{hit[1]}"
                kept[path] = Part(path, Want(f"artifacts/{wheels.artifact}: {hit[1]}", "", None,
                                             hit[0]))  # fmt: skip
        missing = frozenset(pin.project for pin, hit in chosen if not hit)
        if missing:
            open_sets.append((wheels, missing))
    found: dict[str, Part] = {}
    for wheels, missing in open_sets:
        for wheel in locate([wheels], target, problems):
            if wheel.project in missing:
                found[f"wheels/{wheel.file}"] = _wheel_part(wheel)
    return [kept[path] for path in sorted(kept)], [found[path] for path in sorted(found)]


def _there(pin: Pin, there: Mapping[str, str], tags: Mapping[Tag, int]) -> tuple[str, str] | None:
    hits = [(rank, sha, there[sha]) for sha in pin.hashes
            if sha in there and (rank := rank_of(there[sha], tags)) is not None]  # fmt: skip
    return min(hits)[1:] if hits else None


def _wheel_part(wheel: Wheel) -> Part:
    want = Want(f"artifacts/{wheel.artifact}: {wheel.file}", wheel.url, wheel.size, wheel.sha256)
    return Part(f"wheels/{wheel.file}", want)


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:  # it is not there, or cannot be looked at: either way it has to come
        return None


def _size(path: Path) -> int:
    info = _stat(path)
    return info.st_size if info else 0
