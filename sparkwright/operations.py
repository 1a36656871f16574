"""Operations: read the machine, compare, and only then change."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any

from pyinfra import host, state
from pyinfra.api import StringCommand, operation
from pyinfra.api.command import PyinfraCommand

from sparkwright import report
from sparkwright.errors import SparkwrightError
from sparkwright.facts import ask
from sparkwright.resources import Command, Resource, Spec, State, quote
from sparkwright.writer_run import lost

Commands = Generator[PyinfraCommand, None, None]


def failing(message: str) -> StringCommand:
    """A command that fails this machine with a message.

    An exception would stop every machine of the run (pyinfra 3.10, verified), a failing command
    only drops this one.
    """
    return StringCommand(f"printf '%s\\n' {quote(message)} >&2; exit 1")


def guarded(body: Callable[..., Commands]) -> Callable[..., Commands]:
    """Turn an exception in an operation's body into a failing command of this machine.

    A run that lost a machine's lock to another changes it no more.
    """

    @functools.wraps(body)
    def run(*args: Any, **kwargs: Any) -> Commands:
        try:
            if why := lost(state, host):
                raise SparkwrightError(why)
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


class Batch:
    """The questions of one task on one machine, asked together: a round trip for its operations.

    Answers hold until the task changes something, and never from planning to doing.

    + resources: everything that the task's operations will ask about
    """

    def __init__(self, resources: Iterable[Resource]) -> None:
        self._specs = [spec for resource in resources for spec in resource.probes()]
        self._answers: dict[str, State] = {}
        self._stage: object = None

    def ask(self, specs: Sequence[Spec]) -> list[State]:
        """Answers to some of the questions."""
        if self._stage != state.current_stage:
            texts = [json.dumps(spec) for spec in self._specs]
            self._answers = dict(zip(texts, ask(host, self._specs), strict=True))
            self._stage = state.current_stage
        return [self._answers[json.dumps(spec)] for spec in specs]

    def forget(self) -> None:
        """The next question is asked anew, with all others."""
        self._stage = None


@operation()
@guarded
def ensure(resources: Sequence[Resource], batch: Batch | None = None) -> Commands:
    """
    Make a machine have these things, touching only what differs.

    + resources: wanted things, in the order in which they are mended
    + batch: shares a round trip with the other operations of a task
    """

    specs = [resource.probes() for resource in resources]
    flat = [spec for group in specs for spec in group]
    answers = iter(batch.ask(flat) if batch else ask(host, flat))
    states: list[list[State]] = [[next(answers) for _ in group] for group in specs]
    pairs = list(zip(resources, states, strict=True))
    found = [what for resource, seen in pairs for what in resource.drift(seen)]
    if not found:
        host.noop(f"{len(resources)} things are as wanted")
        return
    report.drift(host, found)
    if batch:
        batch.forget()
    for resource, seen in pairs:
        if resource.drift(seen):
            yield from map(as_pyinfra, resource.fix(seen))
