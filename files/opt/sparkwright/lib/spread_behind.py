"""The page cache behind a copy: what went through is dropped, the newest part is kept for a while.

On GB10 the page cache counts as used GPU memory (unsloth#10705), and a model of 60 GB would fill
it. Who asks next mostly wants what came last, so that is read from memory; the rest from the disk.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque

# Bytes after which the kernel is told (our choice).
WINDOW = 32 << 20
# Bytes that a receiver keeps for others, of all its streams together (our choice).
KEEP = 256 << 20
# A shorter end of a file is left: each one that is kept costs an open file.
LEAST = 1 << 20


def forget(descriptor: int, begin: int, size: int) -> None:
    """Take a part of an open file out of the page cache, as far as it is on the disk."""
    with contextlib.suppress(OSError):  # advice, and nothing depends on it
        os.posix_fadvise(descriptor, begin, size, os.POSIX_FADV_DONTNEED)


class Behind:
    """Drops what several streams wrote, the oldest first. Safe to call from several threads."""

    def __init__(self, keep: int = KEEP) -> None:
        self._keep, self._held = keep, 0
        self._lock = threading.Lock()
        self._windows: deque[tuple[int, int, int]] = deque()

    def wrote(self, descriptor: int, begin: int, size: int) -> None:
        """Bytes `begin` to `begin + size` of an open file are written."""
        if size < LEAST:
            return
        # Dirty pages cannot be dropped: the kernel begins to write them now (fadvise64(2)).
        forget(descriptor, begin, size)
        with self._lock:
            self._windows.append((os.dup(descriptor), begin, size))
            self._held += size
        self._drop()

    def end(self) -> None:
        """Keep what is kept, and look after it no longer."""
        with self._lock:
            for descriptor, _, _ in self._windows:
                os.close(descriptor)
            self._windows.clear()
            self._held = 0

    def _drop(self) -> None:
        while True:
            with self._lock:
                if self._held <= self._keep:
                    return
                descriptor, begin, size = self._windows.popleft()
                self._held -= size
            forget(descriptor, begin, size)
            os.close(descriptor)


class Sent:
    """Drops what one stream gave from one file: each pack is given about once by each machine."""

    def __init__(self, descriptor: int, begin: int) -> None:
        self._descriptor, self._dropped = descriptor, begin

    def upto(self, at: int, whole: bool) -> None:
        """Bytes up to `at` are on their way; those of the last window may not have arrived.

        + whole: whether these were the last ones
        """
        if at - self._dropped < 2 * WINDOW and not whole:
            return
        upto = at if whole else at - WINDOW
        forget(self._descriptor, self._dropped, upto - self._dropped)
        self._dropped = upto
