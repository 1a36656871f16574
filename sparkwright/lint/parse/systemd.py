"""systemd's own files as systemd reads them: lines, sections, assignments.

Written after systemd's src/shared/conf-parser.c; the behaviour of 252 was tried.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from sparkwright.lint.model import At, Directive, Unsure
from sparkwright.lint.parse.systemd_words import (
    ExecLine,
    Piece,
    Split,
    env_words,
    exec_lines,
    exec_parts,
    plain,
    specifiers,
    split,
    variables,
)
from sparkwright.lint.text import Text

__all__ = [
    "ExecLine",
    "Piece",
    "Split",
    "SystemdLines",
    "env_words",
    "exec_lines",
    "exec_parts",
    "plain",
    "read",
    "specifiers",
    "split",
    "unsure_lines",
    "variables",
]

_SPACE: Final = " \t\n\r"


@dataclass(frozen=True)
class SystemdLines:
    """What a unit file says, and the lines that systemd passes over.

    + passed_over: (place, text, why) of lines that are neither comment, header nor assignment
    + headers: (place, name) of every section header
    """

    directives: tuple[Directive, ...]
    headers: tuple[tuple[At, str], ...]
    passed_over: tuple[tuple[At, str, str], ...]


def read(source: Text) -> SystemdLines:
    """Sections and assignments of a unit file, continuation lines joined."""
    section = ""
    directives: list[Directive] = []
    headers: list[tuple[At, str]] = []
    passed: list[tuple[At, str, str]] = []
    for joined in _logical(source):
        start = len(joined.text) - len(joined.text.lstrip(_SPACE))
        line = joined.text.strip(_SPACE)
        at = joined.at(start)
        if not line:
            continue
        if line.startswith("["):
            if not line.endswith("]"):
                passed.append((at, line, "a section header without its ]"))
                continue
            section = line[1:-1]
            headers.append((at, section))
        elif "=" not in line:
            passed.append((at, line, "no = in it"))
        else:
            directives.append(_directive(joined, start, line, section))
    return SystemdLines(tuple(directives), tuple(headers), tuple(passed))


def _directive(joined: Text, start: int, line: str, section: str) -> Directive:
    key, _, rest = line.partition("=")
    value = rest.strip(_SPACE)
    begin = start + len(key) + 1 + (len(rest) - len(rest.lstrip(_SPACE)))
    part = joined.part(begin, begin + len(value)) if value else joined.part(begin, begin)
    return Directive(section, key.strip(_SPACE), value, line, joined.at(start), part.marks)


def _logical(source: Text) -> Iterator[Text]:
    """Lines after continuation: the backslash becomes a space, comment lines in between vanish."""
    text, marks, offset = "", list[tuple[int, At]](), 0
    for line in source.text.split("\n"):
        begin, offset = offset, offset + len(line) + 1
        line = line.removesuffix("\r")
        if line.lstrip(_SPACE)[:1] in ("#", ";"):
            continue
        here = source.at(begin)
        marks.append((len(text), here))
        text += line
        if _odd_backslash(text):
            text = text[:-1] + " "
            continue
        yield Text(text, tuple(marks))
        text, marks = "", []
    if marks:
        yield Text(text, tuple(marks))


def _odd_backslash(text: str) -> bool:
    return (len(text) - len(text.rstrip("\\"))) % 2 == 1


def unsure_lines(lines: SystemdLines) -> tuple[Unsure, ...]:
    """Lines that systemd passes over, as things the linter does not judge further."""
    return tuple(Unsure(at, f"{text!r}: {why}") for at, text, why in lines.passed_over)
