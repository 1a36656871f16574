"""What a walk through a shell text collects."""

from __future__ import annotations

from dataclasses import dataclass, field

from sparkwright.lint.model import Assignment, Command, Unsure
from sparkwright.lint.text import Text


@dataclass(frozen=True)
class Embedded:
    """A text inside a script that is a file or script of its own.

    + target: the file that it is written to, "" for a script that is run
    """

    target: str
    text: Text


@dataclass(frozen=True)
class Seen:
    """A command and what it inherits from the script at that point.

    + sourced: files read in before it that are not at hand
    """

    command: Command
    env: tuple[Assignment, ...]
    sourced: tuple[Unsure, ...]


@dataclass
class Walked:
    """Everything found, in order of execution."""

    seen: list[Seen] = field(default_factory=list)
    assignments: list[Assignment] = field(default_factory=list)
    embedded: list[Embedded] = field(default_factory=list)
    unsure: list[Unsure] = field(default_factory=list)
