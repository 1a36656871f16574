"""Problems with a place: collected first, shown together, each with what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass


class SparkwrightError(Exception):
    """Something the user can mend; the message is complete and needs no traceback."""


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong.

    + where: path to the thing, parts joined by "/" after the file name ("sparks.yaml: sparks/a")
    + what: what is wrong
    + hint: what to do about it; empty when `what` says it already
    """

    where: str
    what: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.where}: {self.what}" + (f"; {self.hint}" if self.hint else "")


class Problems:
    """A list of problems that becomes one error.

    Checks add to it and go on, so that a user sees everything at once.
    """

    def __init__(self) -> None:
        self._found: list[Problem] = []

    def add(self, where: str, what: str, hint: str = "") -> None:
        """Record one problem."""
        self._found.append(Problem(where, what, hint))

    def __iter__(self) -> Iterator[Problem]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def raise_if_any(self) -> None:
        """Raise SparkwrightError with every problem on a line of its own, if there is one."""
        if self._found:
            raise SparkwrightError("\n".join(str(problem) for problem in self._found))


def nearest(name: str, known: Iterable[str]) -> str:
    """The hint for an unknown name: the closest known one, or all of them."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]}?"
    return f"known: {', '.join(names)}" if names else "none are known"
