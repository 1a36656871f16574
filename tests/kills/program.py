"""The laptop's side: one converge as a process group of its own, which can be killed whole."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import ClassVar

from tests.e2e.support import PROGRAM, PROJECT
from tests.kills.cases import Moment

# Longest time for a whole first converge on a busy computer before the run counts as hanging.
CONVERGE_S = 900
# A lost machine is noticed half a minute after the last packet, or after a keepalive (30 s each:
# sparkwright/ssh_transport.py); the rest is for a busy computer.
NOTICE_S = 150
POLL_S = 0.05


def headings(log: str) -> int:
    """How many steps pyinfra has announced: its operations, and what comes before them."""
    return sum(line.startswith("-->") for line in log.splitlines())


class Converge:
    """`sparkwright converge` in the background; its output goes to a file.

    + every: all that were started; an interrupted test must leave none
    + over: no more are started: who comes now is interrupted as well
    """

    every: ClassVar[list[Converge]] = []
    over: ClassVar[bool] = False

    def __init__(self, fleet: Path, log: Path) -> None:
        if Converge.over:
            raise KeyboardInterrupt
        self.log = log
        with log.open("w") as out:
            self.process = subprocess.Popen(
                [PROGRAM, "converge"],
                cwd=PROJECT,
                env={**os.environ, "SPARKS_FILE": str(fleet)},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.began = time.monotonic()
        Converge.every.append(self)

    def marks(self) -> list[float]:
        """Let it run to its end; seconds from the start to each of its headings, and to the end."""
        found: list[float] = []
        while self.process.poll() is None:
            if time.monotonic() > self.began + CONVERGE_S:
                self.kill()
            found += [time.monotonic() - self.began] * (headings(self.text()) - len(found))
            time.sleep(POLL_S)
        return [*found, time.monotonic() - self.began]

    def run_until(self, moment: Moment) -> bool:
        """Let it run until a moment; False when it ended before."""
        while headings(self.text()) < moment.headings and self.process.poll() is None:
            time.sleep(POLL_S)
        try:
            self.process.wait(moment.delay)
        except subprocess.TimeoutExpired:
            return True
        return False

    def kill(self) -> None:
        """SIGKILL for the whole group: our program, pyinfra, and what they started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(30)

    def end(self, seconds: float) -> int | None:
        """Its exit status, or None when it did not end by itself within that time."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            return None

    def text(self) -> str:
        """What it said."""
        return self.log.read_text(errors="replace")
