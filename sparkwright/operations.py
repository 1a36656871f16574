"""Operations: read the machine, compare, and only then change."""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Sequence
from typing import Any

from pyinfra import host
from pyinfra.api import StringCommand, operation
from pyinfra.api.command import PyinfraCommand

from sparkwright import report
from sparkwright.facts import ask
from sparkwright.resources import Command, Resource, State, quote

Commands = Generator[PyinfraCommand, None, None]


def failing(message: str) -> StringCommand:
    """A command that fails this machine with a message.

    An exception would stop every machine of the run (pyinfra 3.10, verified), a failing command
    only drops this one.
    """
    return StringCommand(f"printf '%s\\n' {quote(message)} >&2; exit 1")


def guarded(body: Callable[..., Commands]) -> Callable[..., Commands]:
    """Turn an exception in an operation's body into a failing command of this machine."""

    @functools.wraps(body)
    def run(*args: Any, **kwargs: Any) -> Commands:
        try:
            yield from body(*args, **kwargs)
        except Exception as error:  # any exception must stay on this machine, see `failing`
            report.record("problem", host, str(error))
            yield failing(f"{type(error).__name__}: {error}")

    return run


def as_pyinfra(command: Command) -> StringCommand:
    """Our command as pyinfra's; the text for standard input goes with it."""
    if command.stdin is None:
        return StringCommand(command.shell)
    return StringCommand(command.shell, _stdin=command.stdin)


@operation()
@guarded
def ensure(resources: Sequence[Resource]) -> Commands:
    """
    Make a machine have these things, touching only what differs.

    + resources: wanted things, in the order in which they are mended
    """

    specs = [resource.probes() for resource in resources]
    answers = iter(ask(host, [spec for group in specs for spec in group]))
    states: list[list[State]] = [[next(answers) for _ in group] for group in specs]
    pairs = list(zip(resources, states, strict=True))
    found = [what for resource, seen in pairs for what in resource.drift(seen)]
    if not found:
        host.noop(f"{len(resources)} things are as wanted")
        return
    report.drift(host, found)
    for resource, seen in pairs:
        if resource.drift(seen):
            yield from map(as_pyinfra, resource.fix(seen))
