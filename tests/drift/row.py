"""One row of the matrix: what is done by hand, what must be named, what may be touched. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from .site import Site

Way = Literal["mended", "noted", "refused"]


def matches(pattern: str, text: str) -> bool:
    """Whether a whole text is as a pattern says; only "*" stands for something else."""
    return bool(re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text, re.S))


@dataclass(frozen=True)
class Row:
    """A drift on spark-1 and what must come of it.

    + damage: shell text run there as root
    + named: patterns; each is a phrase of `sparkwright check`
    + changes: patterns of what converge may change beside `named`
    + restarted: units of spark-1 that get a new process; every other process stays as it is
    + words: further words for check and converge
    + way: mended, by one converge; noted, said and left alone with exit 0; refused by preflight
      with nothing changed, until `undo` has taken the cause away
    + undo: shell text that puts back what is not sparkwright's
    + fleet: makes the fleet file that is wanted from now on, and in this row only
    + act: does what shell text on the machine cannot
    + prove: looks at the machine after the repair; raises AssertionError
    """

    name: str
    damage: str
    named: tuple[str, ...]
    changes: tuple[str, ...] = ()
    restarted: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    way: Way = "mended"
    undo: str = ""
    fleet: Callable[[Site], Path] | None = None
    act: Callable[[Site], None] | None = None
    prove: Callable[[Site], None] | None = None

    def missed(self, phrases: Sequence[str]) -> list[str]:
        """Patterns that no phrase is like."""
        return [p for p in self.named if not any(matches(p, text) for text in phrases)]

    def strange(self, phrases: Sequence[str]) -> list[str]:
        """Phrases that are neither this drift nor what its repair brings with it."""
        known = (*self.named, *self.changes)
        return [text for text in phrases if not any(matches(p, text) for p in known)]


@dataclass
class Result:
    """What came of a row; `notes` say what was not as wanted."""

    row: Row
    notes: list[str]
    found: bool = False
    repaired: bool = False
    untouched: bool = False

    @property
    def good(self) -> bool:
        """Whether all three hold."""
        return self.found and self.repaired and self.untouched
