"""A file that one process at a time may write, even when the one before renames it away."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO


@contextlib.contextmanager
def held(path: Path, wait_s: float) -> Iterator[IO[bytes]]:
    """Open a file for appending and hold it; its lock goes with the process, however that ends.

    + wait_s: how long to wait for another process

    Raises TimeoutError.
    """
    deadline = time.monotonic() + wait_s
    while True:
        with path.open("ab") as file:
            if not _locked(file):
                if time.monotonic() > deadline:
                    raise TimeoutError(
                        f"{path}: another process is still at work after {wait_s:g} s; run it "
                        "again when that has ended"
                    )
                time.sleep(0.2)
            elif _is(path, file):
                yield file
                return


def _locked(file: IO[bytes]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is(path: Path, file: IO[bytes]) -> bool:
    """Whether the file has this name still: the one before us may have renamed it."""
    return path.exists() and os.path.samestat(path.stat(), os.fstat(file.fileno()))
