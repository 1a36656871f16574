"""When published vLLMs knew a name: variables, flags, values, parsers; learned from their sources.

data/vllm-releases.json holds it for 24 releases from 0.13.0 on; `python -m tests.introspection`
learns them again.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data/vllm-releases.json"
NAMES = ("reasoning_parsers", "tool_parsers", "attention_backends")
# Removed without a word in the release before; what vLLM's documentation has in its place.
REPLACED = {
    "VLLM_ATTENTION_BACKEND": "Use --attention-backend.",
}


@dataclass(frozen=True)
class History:
    """When a name was known.

    + spans: (first, last) of the learned releases, oldest first; the first learned one may not be
      the first that had it
    + hint: what vLLM, or its documentation, says to use in its place; may be empty
    """

    name: str
    spans: tuple[tuple[str, str], ...]
    hint: str

    def __str__(self) -> str:
        """Such as: in vLLM 0.13.0 - 0.23.0; goes away in v0.23: Use --linear-backend."""
        parts = [first if first == last else f"{first} - {last}" for first, last in self.spans]
        return f"in vLLM {', '.join(parts)}" + (f"; {self.hint}" if self.hint else "")


@functools.cache
def table() -> dict[str, Any]:
    """The data file."""
    read: dict[str, Any] = json.loads(DATA.read_text())
    return read


def releases() -> tuple[str, ...]:
    """The learned releases, oldest first."""
    return tuple(table()["releases"])


def values(index: int | None) -> tuple[str, ...] | None:
    """A list of values by its number."""
    return None if index is None else tuple(table()["values"][index])


@functools.cache
def indexes(text: str) -> frozenset[int]:
    """Numbers of "0-3,7"."""
    ends = [part.partition("-") for part in text.split(",")]
    return frozenset(
        i for first, _, last in ends for i in range(int(first), int(last or first) + 1)
    )


def ranges(indexes: Sequence[int]) -> list[tuple[int, int]]:
    """Runs of neighbours: [0, 1, 2, 5] as (0, 2), (5, 5)."""
    found: list[tuple[int, int]] = []
    for index in sorted(indexes):
        if found and found[-1][1] == index - 1:
            found[-1] = (found[-1][0], index)
        else:
            found.append((index, index))
    return found


def history(name: str) -> History | None:
    """When a variable (VLLM_X) or a flag (--x) was known; None: in no learned release.

    A parser's or backend's name is found by `history_of_value`.
    """
    flag = name.startswith("--")
    key = name.removeprefix("--").replace("_", "-") if flag else name
    states = table()["flags" if flag else "env"].get(key)
    if states is None:
        return None
    _, text, *_ = states[max(states, key=lambda where: max(indexes(where)))]
    hint = REPLACED.get(name, "") if text is None else table()["texts"][text]
    return _history(name, states, hint)


def history_of_value(kind: str, value: str) -> History | None:
    """When a value was known.

    + kind: reasoning_parsers, tool_parsers, attention_backends, or a flag's name with dashes
    """
    if kind in NAMES:
        states = table()[kind].get(value)
        return _history(value, states, "") if states else None
    states = table()["flags"].get(kind.removeprefix("--"), {})
    has = {where: 0 for where, state in states.items() if value in (values(state[0]) or ())}
    return _history(value, has, "") if has else None


def _history(name: str, states: Mapping[str, Any], hint: str) -> History:
    known = releases()
    places = sorted({index for where in states for index in indexes(where)})
    spans = tuple((known[first], known[last]) for first, last in ranges(places))
    return History(name, spans, hint)
