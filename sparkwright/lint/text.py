"""Text that knows where each of its characters stands in a file."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property

from sparkwright.lint import places
from sparkwright.lint.model import At

UNKNOWN = places.UNKNOWN


@dataclass(frozen=True)
class Text:
    """A text and the places where its parts begin.

    + marks: (offset, place), sorted, the first at 0; a part lies on one line of the file
    """

    text: str
    marks: tuple[tuple[int, At], ...]
    by_line: bool = False  # each mark is the beginning of a line, and each line has one

    @cached_property
    def _offsets(self) -> list[int]:
        return [offset for offset, _ in self.marks]

    def at(self, offset: int) -> At:
        """Where the character at an offset stands."""
        marks = self.marks
        start, at = marks[bisect_right(self._offsets, offset) - 1 if len(marks) > 1 else 0]
        return At(at.file, at.line, at.column + offset - start) if offset > start else at

    def part(self, start: int, end: int) -> Text:
        """The text from start to end, with its places."""
        text, first = self.text[start:end], (0, self.at(start))
        if len(self.marks) == 1:
            return Text(text, (first,))
        return Text(text, (first, *((o - start, at) for o, at in self.marks if start < o < end)))


def of_file(text: str, path: str, line: int = 1, column: int = 1) -> Text:
    """A whole file's text, or a piece of one that begins at a place and goes on by lines.

    + column: of the first character of every line (a YAML block keeps its indentation out)
    """
    marks, offset = [(0, At(path, line, column))], text.find("\n") + 1
    while offset:
        line += 1
        marks.append((offset, At(path, line, column)))
        offset = text.find("\n", offset) + 1
    return Text(text, tuple(marks), by_line=True)
