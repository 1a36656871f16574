"""The small file that the laptop reads while a job works: phase and message."""

from __future__ import annotations

import json
import time
from pathlib import Path


class Progress:
    """Replaced whole each time, so that a reader never sees half of it."""

    def __init__(self, path: str) -> None:
        self.path, self.last = Path(path), 0.0

    def say(self, phase: str, message: str = "", force: bool = True) -> None:
        """Replace it; unforced at most once a second."""
        if not force and time.monotonic() - self.last < 1:
            return
        self.last = time.monotonic()
        beside = self.path.with_suffix(".new")
        beside.write_text(json.dumps({"phase": phase, "message": message}))
        beside.replace(self.path)
