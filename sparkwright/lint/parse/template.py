"""Texts with names to fill in: `{port}` of recipes, `${PORT:-8000}` of compose files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from sparkwright.lint.model import At
from sparkwright.lint.text import UNKNOWN, Text

# Gives a name's text, or None when it cannot be told; the second word is its default ("" for none).
Fill = Callable[[str, "str | None"], "Text | str | None"]
_BRACES: Final = re.compile(r"\{\{|\}\}|\{([A-Za-z_]\w*)\}")
_DOLLAR: Final = re.compile(r"\$\$|\$\{([A-Za-z_]\w*)(?:(:?[-?+])([^{}]*))?\}|\$([A-Za-z_]\w*)")


def braces(source: Text, fill: Fill) -> Text:
    """Python's str.format as recipes use it; a name that nobody defines stays as it stands."""

    def one(match: re.Match[str]) -> Text | str | None:
        if match[1] is None:
            return match[0][0]
        return fill(match[1], None)

    return _replace(source, _BRACES, one)


def dollars(source: Text, fill: Fill) -> Text:
    """Compose's interpolation."""

    def one(match: re.Match[str]) -> Text | str | None:
        if match[0] == "$$":
            return "$"
        default = match[3] if match[2] in (":-", "-") else None
        return fill(match[1] or match[4], default)

    return _replace(source, _DOLLAR, one)


def _replace(
    source: Text,
    pattern: re.Pattern[str],
    one: Callable[[re.Match[str]], Text | str | None],
) -> Text:
    out, marks = "", list[tuple[int, At]]()
    place = 0
    for match in pattern.finditer(source.text):
        marks += _shift(source.part(place, match.start()), len(out))
        out += source.text[place : match.start()]
        new = one(match)
        place = match.end()
        if isinstance(new, Text):
            marks += _shift(new, len(out))
        else:
            marks.append((len(out), source.at(match.start())))
        out += UNKNOWN if new is None else new.text if isinstance(new, Text) else new
    marks += _shift(source.part(place, len(source.text)), len(out))
    out += source.text[place:]
    return Text(out, _unique(marks))


def _shift(text: Text, offset: int) -> Iterator[tuple[int, At]]:
    return ((start + offset, at) for start, at in text.marks)


def _unique(marks: list[tuple[int, At]]) -> tuple[tuple[int, At], ...]:
    """The last mark of an offset counts: an empty piece has no character of its own."""
    return tuple(dict(marks).items())
