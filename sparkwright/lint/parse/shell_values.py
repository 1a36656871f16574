"""What shell variables hold, as far as a file tells it; branches joined without guessing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sparkwright.lint.model import Assignment, At, Unsure, Word


@dataclass(frozen=True)
class Bit:
    """A piece of a word.

    + text: None when it cannot be told
    + exact: its characters stand one by one in the file from `at` on
    + quoted: it is not split into words
    + array: it is `"${name[@]}"`: these words, each one of its own
    """

    text: str | None
    at: At
    exact: bool = False
    quoted: bool = False
    maybe: bool = False
    unless: str = ""
    array: tuple[Word, ...] | None = None
    literal: bool = False  # written there, not expanded: never split at spaces


Scalar = tuple[Bit, ...]


@dataclass(frozen=True)
class Array:
    """An array's words."""

    words: tuple[Word, ...]


Value = Scalar | Array


@dataclass
class State:
    """Variables at one point of a script.

    + values: what the file assigned; a name that is missing comes from outside, if at all
    + made: the assignment behind each exported name
    + sourced: files read in that are not at hand
    + ended: an `exit` or `exec` was reached
    """

    values: dict[str, Value] = field(default_factory=dict)
    exported: dict[str, bool] = field(default_factory=dict)
    made: dict[str, Assignment] = field(default_factory=dict)
    sourced: tuple[Unsure, ...] = ()
    allexport: bool = False
    ended: bool = False
    arguments: tuple[Word, ...] | None = None

    def copy(self) -> State:
        """A state that changes on its own."""
        return replace(
            self, values=dict(self.values), exported=dict(self.exported), made=dict(self.made)
        )

    def adopt(self, other: State) -> None:
        """Become equal to another state."""
        self.values, self.exported, self.made = other.values, other.exported, other.made
        self.sourced, self.allexport, self.ended = other.sourced, other.allexport, other.ended

    def environment(self) -> tuple[Assignment, ...]:
        """What a command that is started now inherits from the file."""
        return tuple(
            self.made[name] for name, on in self.exported.items() if on and name in self.made
        )


def join(base: State, branches: Sequence[State], line: int) -> State:
    """The state after branches of which one was taken; `base` is among them when none may be."""
    going = [branch for branch in branches if not branch.ended]
    if not going:
        return replace(base, ended=True)
    if len(going) == 1 and going[0] is not base and len(branches) == 1:
        return going[0]
    result = base.copy()
    names = {n for b in going for n, v in b.values.items() if base.values.get(n) != v}
    for name in names:
        found = [branch.values.get(name) for branch in going]
        result.values[name] = _joined(base.values.get(name), found, f"line {line}")
    for branch in going:
        result.exported |= branch.exported
        for name, made in branch.made.items():
            if base.made.get(name) != made:
                result.made[name] = _assignment(base.made.get(name), made, len(going), line)
        result.sourced += tuple(item for item in branch.sourced if item not in result.sourced)
        result.allexport = result.allexport or branch.allexport
    result.ended = False
    return result


def _assignment(before: Assignment | None, made: Assignment, ways: int, line: int) -> Assignment:
    if ways == 1:
        return made
    if before is not None and before.value != made.value:
        return replace(made, value=None)
    return replace(made, unless=made.unless or f"line {line}")


def _joined(before: Value | None, found: Sequence[Value | None], unless: str) -> Value:
    first = found[0]
    if first is not None and all(value == first for value in found):
        return first
    if any(isinstance(value, Array) for value in found):
        return _join_arrays(before, found)
    scalars = [value if isinstance(value, tuple) else () for value in found]
    if first and len({tuple(bit.text for bit in value) for value in scalars}) == 1:
        return max(scalars, key=lambda value: any(bit.unless for bit in value))
    base = before if isinstance(before, tuple) else ()
    if all(value[: len(base)] == base for value in scalars):
        rests = dict.fromkeys(value[len(base) :] for value in scalars)
        tails = [replace(bit, maybe=True, unless=bit.unless or unless) for r in rests for bit in r]
        if len([rest for rest in rests if rest]) == 1 or base:
            return (*base, *tails)
    unknown = [value for value in scalars if value and all(bit.text is None for bit in value)]
    if base and all(value == base or value in unknown for value in scalars):
        return tuple(replace(bit, unless=bit.unless or unless) for bit in base)
    at = next((bit.at for value in (*scalars, base) for bit in value), None)
    return (Bit(None, at),) if at else ()


def _join_arrays(before: Value | None, found: Sequence[Value | None]) -> Array:
    base = before.words if isinstance(before, Array) else ()
    lists = [value.words if isinstance(value, Array) else () for value in found]
    if all(words[: len(base)] == base for words in lists):
        rests = dict.fromkeys(words[len(base) :] for words in lists)
        return Array((*base, *(replace(w, maybe=True) for rest in rests for w in rest)))
    at = next((word.at for words in lists for word in words), None)
    return Array((Word(None, "", at, many=True),) if at else ())
