"""Typed, declarative reading of one map: take each key, then finish() refuses what is left over.

Nothing here raises for bad input. Every problem is recorded and a harmless value is returned, so
that a loader goes on and the user sees everything at once; call Problems.raise_if_any() at the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, overload

from sparkwright.errors import Problems, nearest

T = TypeVar("T")
D = TypeVar("D")

# What is wrong and what to do about it; None means fine.
Verdict = tuple[str, str] | None
Check = Callable[[Any], Verdict]

_REQUIRED: Any = object()
_WORDS: dict[type, str] = {
    str: "text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    list: "a list",
    dict: "a map",
}


class Reader:
    """One map of a YAML file, read key by key.

    + file: how messages name the file ("sparks.yaml")
    + place: path of the map inside the file ("sparks/spark-1"), empty at the top
    + values: what the file says; anything but a map is recorded and read as an empty one
    """

    def __init__(self, file: str, place: str, values: object, problems: Problems) -> None:
        self.file = file
        self.place = place
        self.problems = problems
        self._known: list[str] = []
        wrong = type_problem(values, dict)
        if wrong:
            self.problems.add(self.where(), *wrong)
        self._values: Mapping[str, object] = values if isinstance(values, dict) else {}
        self.usable = not wrong

    def where(self, key: str = "") -> str:
        """The place of a key (or of this map) as messages show it."""
        place = "/".join(part for part in (self.place, key) if part)
        return f"{self.file}: {place}" if place else self.file

    def has(self, key: str) -> bool:
        """Whether the file says anything for the key."""
        return key in self._values

    def fail(self, key: str, what: str, hint: str = "") -> None:
        """Record a problem at the key."""
        self.problems.add(self.where(key), what, hint)

    @overload
    def take(self, key: str, kind: type[T], *, check: Check | None = None) -> T: ...
    @overload
    def take(self, key: str, kind: type[T], default: D, check: Check | None = None) -> T | D: ...
    def take(
        self, key: str, kind: type[Any], default: Any = _REQUIRED, check: Check | None = None
    ) -> Any:
        """The value of a key; `default` (or an empty value of the kind) when absent or wrong.

        + kind: str, int, float, bool, list or dict; strict, but a whole number is a fine float
        + default: without one the key is required
        + check: asked only when the kind is right
        """
        self._known.append(key)
        fallback = kind() if default is _REQUIRED else default
        if key not in self._values:
            if default is _REQUIRED and self.usable:
                self.problems.add(self.where(), f"{key} is missing", f"add {key}: ({_WORDS[kind]})")
            return fallback
        value = self._values[key]
        verdict = type_problem(value, kind) or (check(value) if check else None)
        if verdict:
            self.fail(key, *verdict)
            return fallback
        return float(value) if kind is float and isinstance(value, int) else value

    def section(self, key: str) -> Reader:
        """The map under a key, to be read in turn; an empty one when absent."""
        self._known.append(key)
        return self.at(key, self._values.get(key, {}))

    def at(self, place: str, values: object) -> Reader:
        """A reader for a value further down, as entries() and items() give them."""
        below = "/".join(part for part in (self.place, place) if part)
        return Reader(self.file, below, values, self.problems)

    def entries(self, key: str) -> list[tuple[str, object]]:
        """The items of the list under a key, each with its place ("serve/0")."""
        items = self.take(key, list, [])
        return [(f"{key}/{at}", item) for at, item in enumerate(items)]

    def texts(self, key: str, check: Check | None = None) -> tuple[str, ...]:
        """The list of texts under a key; empty when absent, wrong items left out."""
        kept = []
        for place, item in self.entries(key):
            verdict = type_problem(item, str) or (check(item) if check else None)
            if verdict:
                self.fail(place, *verdict)
            else:
                kept.append(str(item))
        return tuple(kept)

    def items(self) -> list[tuple[str, object]]:
        """Every key with its value, for maps whose keys are names; marks them all as read."""
        self._known.extend(self._values)
        return list(self._values.items())

    def finish(self, elsewhere: Mapping[str, str] | None = None) -> None:
        """Refuse every key that was not read.

        + elsewhere: key -> what to do, for keys that people look for here
        """
        for key in self._values:
            if key in self._known:
                continue
            hint = (elsewhere or {}).get(key) or nearest(key, self._known)
            self.problems.add(self.where(), f"unknown key {key}", hint)


def kind_word(value: object) -> str:
    """What a value is, in the words of messages."""
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return "a number"
    return _WORDS.get(type(value), type(value).__name__)


def type_problem(value: object, kind: type) -> Verdict:
    """Why a value is not of the kind, or None. bool is not int; a number is not text."""
    if value is None:
        return "has no value", "give it one, or remove the key"
    if type(value) is kind:
        if isinstance(value, float) and not math.isfinite(value):
            return "must be a finite number", "write fewer digits"
        return None
    if kind is float and type(value) is int:
        return None
    hint = ""
    if kind is str and isinstance(value, bool | int | float):
        hint = "put it in quotes"
    elif kind in (int, float) and isinstance(value, str) and value.strip().isdigit():
        hint = "remove the quotes"
    return f"must be {_WORDS[kind]}, not {kind_word(value)}", hint


def one_of(*words: str, because: str = "") -> Check:
    """A check that accepts only the given words.

    + because: replaces the nearest known word as the hint
    """

    def check(value: str) -> Verdict:
        if value in words:
            return None
        listed = ", ".join(words[:-1]) + f" or {words[-1]}" if len(words) > 1 else words[0]
        return f'must be {listed}, not "{value}"', because or nearest(value, words)

    return check


def between(low: int, high: int) -> Check:
    """A check for numbers from low to high, both included."""

    def check(value: float) -> Verdict:
        return None if low <= value <= high else (f"must be {low} to {high}, not {value}", "")

    return check


def above_zero(value: float) -> Verdict:
    """A check for numbers greater than 0."""
    return None if value > 0 else (f"must be greater than 0, not {value}", "")


def not_blank(value: str) -> Verdict:
    """A check for texts that say something, on one line."""
    if not value.strip():
        return "has no text in it", "give it some, or remove the key"
    if any(ord(char) < 32 for char in value):
        return "must be one line without control characters", "remove the line break"
    return None
