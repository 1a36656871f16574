"""Files of a pack while they arrive: under another name, hashed from the stream, then named.

A file gets its name when its bytes have the hash that the laptop knows. That it lies safely on
the disk is the job's to see to, once, at the end (`settle`): a file that a power cut damages has
no stamp yet and is hashed again by the next run.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

from spread_behind import WINDOW, Behind

CHUNK = 1 << 20


class WrongContentError(Exception):
    """A file came whole and with another hash."""


@dataclass(frozen=True)
class Part:
    """One file of a pack.

    + place: where it belongs; beside: where it is until it is whole, on the same file system
    + expected: "sha256:…" or "git_sha1:…"
    """

    place: Path
    beside: Path
    size: int
    expected: str


@dataclass(frozen=True)
class Proof:
    """Hashes of a file's bytes as they arrived; git_sha1 only where that is what is expected."""

    sha256: str
    git_sha1: str | None


class Arriving:
    """A pack on its way; it goes on where it was when another machine gives the rest."""

    def __init__(self, parts: Iterable[Part], behind: Behind) -> None:
        self.parts = list(parts)
        self._behind = behind
        self.size = sum(part.size for part in self.parts)
        self.offset = 0  # bytes of the pack that are here
        self.proofs: dict[Path, Proof] = {}
        self._number = 0
        self._file: IO[bytes] | None = None

    def resume(self) -> int:
        """Take what an earlier run left of a single file; the bytes that are here now."""
        if self.offset == 0 and len(self.parts) == 1:
            part = self.parts[0]
            if part.beside.is_file() and part.beside.stat().st_size <= part.size:
                self._open("r+b")
                buffer = bytearray(CHUNK)
                while self._file and (count := self._file.readinto(buffer)):  # type: ignore[attr-defined]  # a raw file
                    self._count(memoryview(buffer)[:count])
        return self.offset

    def write(self, data: memoryview) -> None:
        """The next bytes, which may end one file and begin others.

        Raises OSError or WrongContentError.
        """
        while data:
            if self._file is None:
                self._open("wb")
            left = self.parts[self._number].size - self._done
            piece = data[:left]
            rest = piece
            while rest and self._file:
                rest = rest[self._file.write(rest) :]
            self._count(piece)
            data = data[len(piece) :]
            self._end()

    def finish(self) -> None:
        """Name the last file, and empty ones, which need no bytes."""
        while self._number < len(self.parts):
            if self._file is None:
                self._open("wb")
            if not self._end():
                raise ConnectionError("the pack ended early")

    def close(self) -> None:
        """Leave what is here for another try."""
        if self._file:
            self._file.close()
            self._file = None

    def reopen(self) -> None:
        """Go on after `close`."""
        if self._file is None and self._number < len(self.parts) and self._done:
            self._file = self.parts[self._number].beside.open("r+b", buffering=0)
            self._file.seek(self._done)

    def _open(self, mode: Literal["wb", "r+b"]) -> None:
        part = self.parts[self._number]
        part.beside.parent.mkdir(parents=True, exist_ok=True)
        part.place.parent.mkdir(parents=True, exist_ok=True)
        self._file = part.beside.open(mode, buffering=0)
        self._done = self._told = 0
        self._sha256 = hashlib.sha256()
        head = b"blob %d\0" % part.size
        named = part.expected.startswith("git_sha1:")
        # Not for secrecy: it is how git and the Hub name content.
        self._git = hashlib.sha1(head, usedforsecurity=False) if named else None

    _done = _told = 0  # bytes of this file that are here, and that the page cache was told of

    def _count(self, piece: memoryview) -> None:
        self._sha256.update(piece)
        if self._git:
            self._git.update(piece)
        self._done += len(piece)
        self.offset += len(piece)
        if self._done - self._told >= WINDOW:
            self._tell()

    def _tell(self) -> None:
        if self._file:
            self._behind.wrote(self._file.fileno(), self._told, self._done - self._told)
            self._told = self._done

    def _end(self) -> bool:
        """Name the file when it is whole and right."""
        part = self.parts[self._number]
        if self._done < part.size:
            return False
        self._tell()
        self.close()
        proof = Proof(self._sha256.hexdigest(), self._git.hexdigest() if self._git else None)
        if part.expected not in (f"sha256:{proof.sha256}", f"git_sha1:{proof.git_sha1}"):
            part.beside.unlink()
            self.offset -= part.size
            self._done = 0
            raise WrongContentError(f"{part.place.name}: came with sha256:{proof.sha256}")
        part.beside.chmod(0o644)
        part.beside.replace(part.place)
        self.proofs[part.place] = proof
        self._number += 1
        self._done = 0
        return True


def settle(places: Iterable[Path]) -> None:
    """Have these files on the disk. Raises OSError."""
    for place in places:
        descriptor = os.open(place, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
