"""What a wanted file is, and whether bytes are it."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

CHUNK: Final = 1 << 20


class Stopped(Exception):
    """The run is being ended; the unfinished part is kept."""


@dataclass(frozen=True)
class Want:
    """A file to have.

    + name: how messages call it; headers: of the request
    + size: bytes, None when it is not known; sha256 or git_sha1 proves the content
    """

    name: str
    url: str
    size: int | None
    sha256: str | None
    git_sha1: str | None = None
    headers: Mapping[str, str] | None = None

    @property
    def proof(self) -> str:
        """The hash by which it is known."""
        return f"sha256:{self.sha256}" if self.sha256 else f"git_sha1:{self.git_sha1}"


class Hashes:
    """sha256, and git's sha1 where that is the proof, over the bytes as they come."""

    def __init__(self, want: Want) -> None:
        self.size = 0
        self._sha256 = hashlib.sha256()
        self._git = None
        if want.git_sha1:
            self._git = hashlib.sha1(b"blob %d\0" % (want.size or 0), usedforsecurity=False)

    def update(self, data: bytes | memoryview) -> None:
        """More bytes."""
        self.size += len(data)
        self._sha256.update(data)
        if self._git:
            self._git.update(data)

    @property
    def sha256(self) -> str:
        """Hex digits."""
        return self._sha256.hexdigest()

    def proves(self, want: Want) -> bool:
        """Whether these are the wanted bytes."""
        if want.size is not None and self.size != want.size:
            return False
        return self.sha256 == want.sha256 if want.sha256 else self.told == want.git_sha1

    @property
    def told(self) -> str:
        """The hash that is compared."""
        return self._git.hexdigest() if self._git else self.sha256


def hash_file(path: Path, want: Want, stop: threading.Event) -> Hashes:
    """The hashes of a file on disk. Raises OSError, Stopped."""
    found = Hashes(want)
    buffer = memoryview(bytearray(CHUNK))
    with path.open("rb", buffering=0) as file:
        while size := file.readinto(buffer):
            if stop.is_set():
                raise Stopped
            found.update(buffer[:size])
    return found
