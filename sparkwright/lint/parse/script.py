"""A shell script: its commands, the engines it starts, and the files it writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from sparkwright.lint.model import Assignment, At, Command, How, Launch, Unsure
from sparkwright.lint.parse import docker, launches
from sparkwright.lint.parse.launches import Around
from sparkwright.lint.parse.shell_values import Bit, State
from sparkwright.lint.parse.shell_walk import Walker
from sparkwright.lint.parse.shell_walked import Embedded, Seen, Walked
from sparkwright.lint.text import Text

ReadFile = Callable[[str, At, How], "tuple[Assignment, ...] | None"]


def nothing_at_hand(path: str, at: At, how: How) -> tuple[Assignment, ...] | None:
    """A reader for texts that have no other files beside them."""
    return None


@dataclass(frozen=True)
class Script:
    """What a shell text says."""

    commands: tuple[Command, ...]
    assignments: tuple[Assignment, ...]
    launches: tuple[Launch, ...]
    embedded: tuple[Embedded, ...]
    unsure: tuple[Unsure, ...]


def read(source: Text, read_file: ReadFile, around: Around | None = None) -> Script:
    """Walk a script.

    + around: what it inherits from a unit or container that runs it
    """
    start = around or Around()
    state = State()
    for item in start.env:
        state.exported[item.name] = True
        state.made[item.name] = item
        state.values[item.name] = (Bit(item.value, item.at),)
    out = Walked()
    Walker(source, state, out).run()
    found = [one for seen in out.seen for one in _launches(seen, start, read_file)]
    made = tuple(dict.fromkeys(out.assignments))
    commands = tuple(seen.command for seen in out.seen)
    return Script(
        commands,
        made,
        tuple(launches.with_lost(launch, made) for launch in found),
        tuple(out.embedded),
        tuple(out.unsure),
    )


def _launches(seen: Seen, start: Around, read_file: ReadFile) -> Iterator[Launch]:
    command = seen.command
    around = replace(
        start,
        env=(*seen.env, *command.env),
        env_unknown=(*start.env_unknown, *seen.sourced),
        where=command.where or start.where,
        user=command.user or start.user,
    )
    found = docker.container(command.argv)
    if found is None:
        yield from launches.every(command.argv, command.at, around)
        return

    def nested(text: Text, inside: Around) -> Iterator[Launch]:
        return iter(read(text, read_file, inside).launches)

    yield from docker.launched(found, command.at, around, read_file, nested)
