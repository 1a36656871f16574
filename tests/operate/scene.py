"""One provocation: what is done, and the causes that doctor must name, and no other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from .patient import RECIPE, Patient

# Does the damage, gives the fleet file to ask with (None: the usual one), and mends it at its end.
Act = Callable[[Patient], AbstractContextManager[Path | None]]


@dataclass(frozen=True)
class Scene:
    """One provocation.

    + real: what is real in it, and what stands in for what
    + expect: (recipe or "" for the machine, cause)
    + words: further words for `sparkwright doctor`, such as the symptom
    """

    real: str
    act: Act
    expect: frozenset[tuple[str, str]]
    words: tuple[str, ...] = ()


def here(cause: str) -> frozenset[tuple[str, str]]:
    """The cause, of the usual recipe."""
    return frozenset({(RECIPE, cause)})


def machine(cause: str) -> frozenset[tuple[str, str]]:
    """The cause, of the machine itself."""
    return frozenset({("", cause)})


def dropin(*lines: str) -> Act:
    """The unit with these lines in its [Service]."""

    @contextmanager
    def act(patient: Patient) -> Iterator[None]:
        with patient.dropin(*lines):
            yield

    return act


def shell(damage: str, repair: str, restart: bool = True) -> Act:
    """
    Commands of root.

    + restart: restart the unit after the damage
    """

    @contextmanager
    def act(patient: Patient) -> Iterator[None]:
        patient.root(damage)
        try:
            if restart:
                patient.restart()
            yield
        finally:
            patient.root(repair)
            patient.well()

    return act


def nothing(patient: Patient) -> AbstractContextManager[None]:
    """As it is."""
    return nullcontext()
