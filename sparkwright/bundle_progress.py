"""What people see while a bundle is filled: bars on a terminal, a line now and then in a log."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Final, Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

LINE_S: Final = 10.0  # between two lines of a log


class Shown:
    """Bytes and files of one run; a context manager.

    + size: bytes that will come, as far as known; files: how many
    """

    def __init__(self, size: int, files: int) -> None:
        console = Console(stderr=True)
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(binary_units=False),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._task = self._bars.add_task(f"0/{files}", total=size or None)
        self._console, self._lock = console, threading.Lock()
        self._size, self._files = size, files
        self._came = self._done = 0
        self._last = time.monotonic()

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bars.stop()

    def came(self, size: int) -> None:
        """Bytes that came (negative: thrown away)."""
        with self._lock:
            self._came += size
            self._bars.update(self._task, completed=self._came)
            now = time.monotonic()
            if not self._console.is_terminal and now - self._last >= LINE_S:
                self._last = now
                self._console.print(
                    f"{self._done} of {self._files} files, {shown(self._came)} of "
                    f"{shown(self._size)}", highlight=False,
                )  # fmt: skip

    def finished(self, name: str) -> None:
        """A file is done."""
        with self._lock:
            self._done += 1
            self._bars.update(self._task, description=f"{self._done}/{self._files}")


def shown(size: int) -> str:
    """Bytes for people: powers of 1000, as disks are sold."""
    value = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"
