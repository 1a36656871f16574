"""Many files at once: threads, one way to stop them all, and every failure collected."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Final, Protocol, TypeVar

from sparkwright.bundle_fetch import DiskFull
from sparkwright.bundle_hash import Stopped
from sparkwright.errors import Problems, SparkwrightError
from sparkwright.needs_parts import absorb

T = TypeVar("T")
DOWNLOADS: Final = 8  # at once (our choice: registries serve one connection at 20-60 MB/s)
POLL_S: Final = 0.5
GRACE_S: Final = 2.0


class Progress(Protocol):
    """What people see meanwhile."""

    def came(self, size: int) -> None:
        """Bytes that came (negative: thrown away)."""

    def finished(self, name: str) -> None:
        """A file is done."""


class Nothing:
    """A progress that shows nothing."""

    def came(self, size: int) -> None:
        """Nothing."""

    def finished(self, name: str) -> None:
        """Nothing."""


def cores() -> int:
    """How many files are hashed at once."""
    return os.cpu_count() or 1


def run_all(
    items: Iterable[T],
    work: Callable[[T], None],
    threads: int,
    stop: threading.Event,
    problems: Problems,
) -> None:
    """
    Work on all items in threads; one's failure does not end the others, but a full disk does.

    + stop: set when the run ends early; `work` then raises Stopped soon
    + problems: gets what SparkwrightErrors say

    Raises KeyboardInterrupt when the threads have ended, or after GRACE_S: one that waits for a
    silent server does not see `stop`.
    """
    pool = ThreadPoolExecutor(threads)
    waiting: set[Future[None]] = {pool.submit(work, item) for item in items}
    try:
        while waiting:
            done, waiting = wait(waiting, POLL_S, FIRST_COMPLETED)
            for future in done:
                _take(future, stop, problems)
    except BaseException:
        stop.set()
        wait(waiting, GRACE_S)
        raise
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _take(future: Future[None], stop: threading.Event, problems: Problems) -> None:
    try:
        future.result()
    except DiskFull as error:
        if not stop.is_set():
            absorb(problems, error)
        stop.set()
    except SparkwrightError as error:
        absorb(problems, error)
    except Stopped:
        if not stop.is_set():
            raise
