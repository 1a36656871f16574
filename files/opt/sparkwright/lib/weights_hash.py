"""Hashing of large files in parallel that leaves the page cache alone.

On GB10 the page cache counts as used GPU memory (unsloth#10705: 103 GB "free" became 41 GB after
a 60 GB file was written), so every piece that was read is dropped behind the reader. Dirty pages
cannot be dropped; that is why a file is synced first.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

# A piece that is still in the core's cache when it is hashed: on two EPYC cores four files, two at
# once, went at 1239 MB/s, and at 1081 with pieces of 8 MiB (medians of four rounds in turns).
CHUNK = 1 << 20
DROP = 8 << 20  # bytes after which the page cache is told: not at each piece
# 4 to 8 threads reach the speed of the NVMe (stack facts 3.3, an estimate).
THREADS = min(8, os.cpu_count() or 1)

Report = Callable[[int], None]


class Cancelled(Exception):
    """Hashing was told to stop."""


@dataclass(frozen=True)
class Hashes:
    """The sha256 of a file, and git's name for the content when that was asked for."""

    sha256: str
    git_sha1: str | None = None

    def matches(self, expected: str) -> bool:
        """Is `expected` ("sha256:…" or "git_sha1:…") the hash of this content?"""
        return expected in (f"sha256:{self.sha256}", f"git_sha1:{self.git_sha1}")


@dataclass(frozen=True)
class Work:
    """One file to hash and the hash that it should have."""

    path: Path
    expected: str


def hash_file(
    work: Work, report: Report | None = None, stop: threading.Event | None = None
) -> Hashes:
    """Hash one file; `report` gets the bytes of each piece.

    Raises OSError when the file cannot be read, Cancelled when `stop` is set.
    """
    with work.path.open("rb", buffering=0) as file:
        descriptor = file.fileno()
        os.fsync(descriptor)
        whole = hashlib.sha256()
        # Only small files are named by git's sha1; for the others the second hash is spared.
        blob = _git_blob(descriptor) if work.expected.startswith("git_sha1:") else None
        buffer = bytearray(CHUNK)
        view = memoryview(buffer)
        offset = dropped = 0
        while count := file.readinto(buffer):
            if stop is not None and stop.is_set():
                raise Cancelled(str(work.path))
            whole.update(view[:count])
            if blob is not None:
                blob.update(view[:count])
            offset += count
            if offset - dropped >= DROP:
                os.posix_fadvise(descriptor, dropped, offset - dropped, os.POSIX_FADV_DONTNEED)
                dropped = offset
            if report is not None:
                report(count)
        os.posix_fadvise(descriptor, dropped, 0, os.POSIX_FADV_DONTNEED)  # to the end
    return Hashes(whole.hexdigest(), blob.hexdigest() if blob is not None else None)


def _git_blob(descriptor: int) -> hashlib._Hash:
    head = b"blob %d\0" % os.fstat(descriptor).st_size
    return hashlib.sha1(head, usedforsecurity=False)


def hash_many(works: Iterable[Work], report: Report | None = None) -> dict[Path, Hashes]:
    """Hash many files, largest first, several at once (hashlib releases the interpreter lock).

    Raises OSError of the first file that cannot be read.
    """
    from concurrent.futures import ThreadPoolExecutor  # here: a look at stamps hashes nothing

    ordered = sorted(works, key=lambda work: -work.path.stat().st_size)
    stop = threading.Event()
    with ThreadPoolExecutor(THREADS) as pool:
        try:
            results = list(pool.map(lambda work: hash_file(work, report, stop), ordered))
        except BaseException:
            # Without this the pool would read 60 GB to the end before a SIGTERM takes effect.
            stop.set()
            raise
    return {work.path: result for work, result in zip(ordered, results, strict=True)}
