"""The state of a push: what has been sent, what the machine said, and lines about it."""

from __future__ import annotations

import errno
import json
import os
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

SAY_EVERY_S: Final = 1.0
JUDGED_AFTER: Final = 32 << 20  # bytes; pipe, ssh and TCP hold some of them (our choice)
# Bytes a second. A link of 1 Gbit/s carries 125e6 and is full with one connection; a hard disk
# gives about 200e6 to one reader and less to two. Beyond that ssh itself is the limit.
FAST_BPS: Final = 200e6


class PushError(Exception):
    """The push cannot be done; the message is for the user."""


@dataclass
class Sending:
    """One stream to one machine.

    + names: sha256 -> path of the file that has it, for messages
    """

    top: Path
    names: dict[str, str]
    total: int
    sent: int = 0
    skipped: int = 0
    began: float = field(default_factory=time.monotonic)
    said: float = 0.0
    wrong: dict[str, str] = field(default_factory=dict)
    failed: str = ""
    parent: int = field(default_factory=os.getppid)
    first: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def moved(self, count: int) -> None:
        """Bytes that a connection took; connections are threads."""
        with self.lock:
            self.first = self.first or time.monotonic()
            self.sent += count

    def fast(self, streams: int) -> bool:
        """Does each of the connections move more than a slow link or disk would let one?"""
        took = time.monotonic() - self.first
        return self.sent >= JUDGED_AFTER * streams and self.sent > FAST_BPS * streams * took

    def say(self, force: bool = False) -> None:
        """A line of progress, once a second."""
        now = time.monotonic()
        if not force and now - self.said < SAY_EVERY_S:
            return
        self.said = now
        if os.getppid() != self.parent:
            raise PushError("the run that started this push is gone; run it again")
        rate = self.sent / max(now - self.began, 0.001)
        left = self.total - self.skipped - self.sent
        tell(
            phase="pushing",
            done_bytes=self.skipped + self.sent,
            total_bytes=self.total,
            rate_bps=rate,
            eta_s=left / rate if rate else None,
        )

    def listen(self, answers: IO[bytes]) -> None:
        """Read what the machine says until it ends."""
        for line in answers:
            said = json.loads(line)
            if "wrong" in said:
                self.wrong[said["wrong"]] = said["found"]
            if "failed" in said:
                full = said.get("errno") in (errno.ENOSPC, errno.EDQUOT)
                why = "the machine's disk is full" if full else str(said["why"])
                name = self.names.get(said["failed"], "")
                self.failed = f"{name}: {why}" if name else why


def tell(**what: object) -> None:
    """A line for the one that started us."""
    print(json.dumps(what), flush=True)
