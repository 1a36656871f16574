"""The progress file: what the laptop reads while the job runs detached from it."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

# The laptop prints a line every 10 s, and another machine is named a second later at most.
INTERVAL_S = 1.0
# The rate is the mean of the last 15 s: steady to read, and a stall shows soon (our choice).
WINDOW_S = 15.0


class Progress:
    """Counts bytes of one phase and replaces the progress file about once a second.

    Safe to call from several threads.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._phase = "start"
        self._message = ""
        self._lost: list[list[object]] = []
        self._done = 0
        self._total = 0
        self._seen: deque[tuple[float, int]] = deque()
        self._written = 0.0

    def phase(self, name: str, total: int, done: int = 0, message: str = "") -> None:
        """Begin a phase that ends at `total` bytes."""
        with self._lock:
            self._phase, self._total, self._done, self._message = name, total, done, message
            self._seen.clear()
            self._write(force=True)

    def add(self, count: int) -> None:
        """Count more bytes."""
        with self._lock:
            self._done += count
            self._write()

    def say(self, message: str, lost: list[list[object]]) -> None:
        """Another message beside the phase, and the machines that do not answer."""
        with self._lock:
            if (message, lost) != (self._message, self._lost):
                self._message, self._lost = message, lost
                self._write(force=True)

    def above(self, base: int) -> Callable[[int], None]:
        """A function that sets the bytes done so far to `base` and what it is given."""

        def at(done: int) -> None:
            with self._lock:
                self._done = base + done
                self._write()

        return at

    def _write(self, force: bool = False) -> None:
        now = time.monotonic()
        if self._path is None or (not force and now - self._written < INTERVAL_S):
            return
        self._written = now
        rate = self._rate(now)
        left = max(0, self._total - self._done)
        value = {
            "phase": self._phase,
            "done_bytes": min(self._done, self._total),
            "total_bytes": self._total,
            "rate_bps": rate,
            "eta_s": left // rate if rate else None,
            "message": self._message,
            **({"lost": self._lost} if self._lost else {}),
        }
        temporary = self._path.with_name(f".{self._path.name}.tmp")
        temporary.write_text(json.dumps(value) + "\n", encoding="utf-8")
        temporary.chmod(0o644)
        temporary.replace(self._path)

    def _rate(self, now: float) -> int:
        """Bytes a second over the window; 0 until there are two readings."""
        self._seen.append((now, self._done))
        while now - self._seen[0][0] > WINDOW_S:
            self._seen.popleft()
        first, then = self._seen[0]
        return max(0, int((self._done - then) / (now - first))) if now > first else 0
