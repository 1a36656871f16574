"""Words, settings and lines of a linted file, each with the place where it stands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Final, TypeVar

# Stands for a part that cannot be told, inside text that is parsed again (`bash -c "… $X …"`):
# private use, so no file means anything by it.
UNKNOWN: Final = "\ue000"
T = TypeVar("T")


def kept(owner: object, name: str, make: Callable[[], T]) -> T:
    """A value that is made once for a frozen object: cached_property from outside of its class.

    Each rule asks the same things of the same document; hashing it for a cache costs more.
    """
    values: dict[str, T] = vars(owner)
    if name not in values:
        values[name] = make()
    return values[name]


@dataclass(frozen=True, order=True)
class At:
    """A place: line and column count from 1, a column is one character."""

    file: str
    line: int
    column: int = 1


@dataclass(frozen=True)
class Word:
    """One word of a command line.

    + text: exactly what the program gets; None when that cannot be told
    + raw: the bytes in the file
    + many: it may be any number of words, none included ("$@", an unknown array, an unquoted $X)
    + maybe: only there when a branch of the script is taken
    + unless: what from outside changes the text ("PORT" for "${PORT:-8000}"); "" when nothing does
    + pattern: the text with U+E000 in place of each part that cannot be told
    + spots: (offset in pattern, its place), where parts of it begin
    """

    text: str | None
    raw: str
    at: At
    many: bool = False
    maybe: bool = False
    unless: str = ""
    pattern: str = ""
    spots: tuple[tuple[int, At], ...] = ()

    @property
    def shape(self) -> str:
        """The text as far as it is known, for asking what kind of thing it is; never its value."""
        return self.text if self.text is not None else self.pattern


class How(StrEnum):
    """Where an assignment is made."""

    UNIT = "Environment="
    ENVFILE = "EnvironmentFile="
    EXPORT = "export"
    SHELL = "shell variable"  # not exported: it reaches no other program
    PREFIX = "before the command"  # FOO=1 program
    DOCKER = "docker run -e"
    DOCKER_FILE = "docker run --env-file"
    IMAGE = "ENV"
    COMPOSE = "environment:"
    COMPOSE_FILE = "env_file:"
    RECIPE = "env:"


@dataclass(frozen=True)
class Assignment:
    """One environment variable as it is set somewhere.

    + value: exactly what a process gets, None when that cannot be told
    + raw: the text in the file, name included
    """

    name: str
    value: str | None
    raw: str
    at: At
    how: How
    unless: str = ""  # as in Word


@dataclass(frozen=True)
class Directive:
    """One line `Key=value` of a systemd file, continuation lines joined as systemd joins them.

    + section: "" before the first header
    + value: stripped, quotes and specifiers as they stand
    + raw: the bytes from the key to the end of the value
    + at: the key; spots: (offset in value, its place), at each place where a file line begins
    """

    section: str
    key: str
    value: str
    raw: str
    at: At
    spots: tuple[tuple[int, At], ...] = ()

    def place(self, offset: int) -> At:
        """Where the character at `offset` of the value stands in the file."""
        if len(self.spots) == 1 and self.spots[0][0] <= offset:
            start, at = self.spots[0]
        else:
            start, at = max((s for s in self.spots if s[0] <= offset), default=(0, self.at))
        return At(at.file, at.line, at.column + offset - start)


@dataclass(frozen=True)
class Redirect:
    """`> target` and its relatives; op without the file descriptor."""

    op: str
    target: Word


@dataclass(frozen=True)
class Command:
    """One simple command of a script, a RUN line, or a unit's Exec line.

    + argv: without `exec`, `nohup`, `env`, `nice`, `time`, `sudo`, `timeout N` before it
    + env: assignments written before the command
    + wrapped: those words before it, as text ("sudo", "nohup")
    + user: whom sudo, doas or runuser runs it as (root when they name nobody); "" without them,
      None when that cannot be told
    + piped_from: index in Document.commands of the command whose output it reads
    + where: "" for a script's top level, a function's name, or the Exec key of a unit
    + background: ends with "&"
    """

    argv: tuple[Word, ...]
    at: At
    env: tuple[Assignment, ...] = ()
    redirects: tuple[Redirect, ...] = ()
    wrapped: tuple[str, ...] = ()
    user: str | None = ""
    piped_from: int | None = None
    where: str = ""
    background: bool = False

    @cached_property
    def name(self) -> str:
        """The program's file name, "" when it cannot be told."""
        text = self.argv[0].text if self.argv else None
        return (text or "").rsplit("/", 1)[-1]

    def texts(self) -> list[str]:
        """The words that can be told."""
        return [word.text for word in self.argv if word.text is not None]


@dataclass(frozen=True)
class Unsure:
    """Something that the linter could not tell."""

    at: At
    what: str
