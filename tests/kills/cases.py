"""Which deaths there are, and when each comes: everything follows from the seed. Pure."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.lab.host import LabError

# How often each death comes (issue 3, part 2).
DEATHS = {"laptop": 20, "cable": 10, "power": 10}
# Trouble that is not left to chance, a run each.
AIMED = ("full-build", "full-download", "full-unit", "dpkg")


@dataclass(frozen=True)
class Moment:
    """A time in a converge that other load on the computer hardly moves.

    + headings: steps that have been announced by then
    + delay: seconds since the last of them
    """

    headings: int
    delay: float

    def __str__(self) -> str:
        return f"step {self.headings} + {self.delay:.1f} s"


def moment(share: float, marks: list[float]) -> Moment:
    """The moment after a share of an undisturbed run.

    + marks: seconds from its start to each heading, and to its end at last
    """
    at = share * marks[-1]
    count = sum(mark <= at for mark in marks[:-1])
    return Moment(count, at - (marks[count - 1] if count else 0.0))


@dataclass(frozen=True)
class Case:
    """One run.

    + name: "laptop-07" or one of `AIMED`
    + share: when death comes, as a share of the time that an undisturbed first converge takes
    """

    name: str
    share: float

    @property
    def kind(self) -> str:
        """The death: what stands before the number."""
        return self.name.rsplit("-", 1)[0] if self.name not in AIMED else self.name


def all_cases(seed: int) -> list[Case]:
    """Every case; a case's moment depends on the seed and its own name alone."""
    names = [f"{kind}-{n:02d}" for kind, count in DEATHS.items() for n in range(1, count + 1)]
    drawn = [Case(name, random.Random(f"{seed}/{name}").random()) for name in names]
    return [*drawn, *[Case(name, 0.0) for name in AIMED]]


def chosen(cases: list[Case], only: list[str]) -> list[Case]:
    """The cases whose name or kind is among `only`; all without any. Raises LabError."""
    known = {case.name for case in cases} | {case.kind for case in cases}
    strange = [name for name in only if name not in known]
    if strange:
        kinds = ", ".join(sorted({case.kind for case in cases}))
        raise LabError(f"--only {strange[0]}: no such case; known: {kinds}, and laptop-01 …")
    return [case for case in cases if not only or {case.name, case.kind} & set(only)]
