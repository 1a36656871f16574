"""The small file that the laptop reads while a job works: phase and message."""

from __future__ import annotations

import json
import time
from pathlib import Path


class Progress:
    """Replaced whole each time, so that a reader never sees half of it."""

    def __init__(self, path: str) -> None:
        self.path, self.last = Path(path), 0.0

    def say(self, phase: str, message: str = "", force: bool = True, **more: object) -> None:
        """Replace it; unforced at most once a second.

        + more: eta_s (seconds left), or what else the laptop looks for
        """
        if not force and time.monotonic() - self.last < 1:
            return
        self.last = time.monotonic()
        beside = self.path.with_suffix(".new")
        beside.write_text(json.dumps({"phase": phase, "message": message, **more}))
        beside.replace(self.path)

    def step(self, phase: str, done: int, total: int, began: float) -> None:
        """Say how many steps are done, and how long the others take at the same pace.

        + began: of the first step, by time.monotonic
        """
        took = max(time.monotonic() - began, 0.001)
        text = f"step {done} of {total}, {100 * done // total} %, {60 * done / took:.0f} a minute"
        self.say(phase, text, False, eta_s=took / max(done, 1) * (total - done))
