"""Ctrl-C: ends the run at once, with an honest exit status, and leaves the machines' work alone.

pyinfra 3.10.0 exits with 0 then, and only after every operation under way has returned: its pool
has no place for the greenlet that would disconnect (seen: 21 s for the rest of a job of 25 s).
"""

from __future__ import annotations

import signal
import sys
from types import FrameType

EXIT = 128 + signal.SIGINT  # as shells say it
_SEEN: set[int] = set()


def listen() -> None:
    """Take over SIGINT from pyinfra; called in its main thread, once or more often.

    SIGTERM too, which `sparkwright converge` sends when it is interrupted: locks are released then.
    """
    signal.signal(signal.SIGINT, _end)
    signal.signal(signal.SIGTERM, _end)


def came() -> bool:
    """Whether somebody asked this run to end: loops that only watch then return."""
    return bool(_SEEN)


def _end(number: int, frame: FrameType | None) -> None:
    if number == signal.SIGTERM and came():
        return  # it is ending already, and both come for one Ctrl-C
    _SEEN.add(number)
    print("interrupted; builds and downloads go on, the next run joins them", file=sys.stderr)
    sys.exit(EXIT)
