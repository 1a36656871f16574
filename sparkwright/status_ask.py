"""Asks all machines at once: connect, one round trip each, and no machine stops the others."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pyinfra.api import FactBase, StringCommand
from pyinfra.api.facts import get_fact
from pyinfra.connectors.util import remove_any_sudo_askpass_file
from pyinfra.context import ctx_config, ctx_host, ctx_inventory, ctx_state

from sparkwright.errors import SparkwrightError
from sparkwright.facts import reads
from sparkwright.limits import matches, refuse
from sparkwright.paths import PROJECT

LEAVE_S: Final = 3.0  # a machine that went away meanwhile keeps nobody waiting


@dataclass(frozen=True)
class Answer:
    """What one machine said.

    + said: the program's JSON; None when it could not be asked
    + why: then the reason, one line
    """

    name: str
    data: Mapping[str, Any]
    said: Any
    why: str = ""


class Program(FactBase[Any]):
    """
    What one of our programs says, run out of its text: nothing need be installed.

    + program: file name in files/opt/sparkwright/lib
    + spec: its argument
    """

    def command(self, program: str, spec: str) -> StringCommand:
        return reads(program, spec)

    def process(self, output: list[str]) -> Any:
        return json.loads("\n".join(output))


# From a machine's name and data: a program and its spec.
Question = Callable[[str, Mapping[str, Any]], tuple[str, str]]


class Fleet:
    """The machines of an inventory, connected on first use and kept for the next look.

    Make it before anything else imports gevent's neighbours: pyinfra patches sockets when its
    command line is imported.
    """

    def __init__(
        self, inventory: str, limits: Sequence[str], data: Sequence[str], timeout_s: float
    ) -> None:
        import gevent
        import pyinfra_cli  # noqa: F401 - patches sockets and threads; first
        from pyinfra.api import Config
        from pyinfra.api import State as Pyinfra
        from pyinfra_cli.inventory import make_inventory

        # Ctrl-C while machines are asked ends the program; gevent would print a traceback first.
        hub: Any = gevent.get_hub()
        hub.NOT_ERROR = (*hub.NOT_ERROR, KeyboardInterrupt)
        self.timeout_s = timeout_s
        place = Path(inventory)
        path = place if place.is_absolute() else PROJECT / place
        self.state, config = Pyinfra(), Config(CONNECT_TIMEOUT=max(1, round(timeout_s)))
        self.state.cwd = str(PROJECT)
        ctx_state.set(self.state)  # inventory.py is run with these, as pyinfra's command does
        ctx_config.set(config)
        made = make_inventory(str(path), override_data=_data(data), cwd=str(PROJECT))
        ctx_inventory.set(made)
        self.state.init(made, config)
        self.hosts = _limited(list(made), limits)

    @classmethod
    def of(cls, state: Any, hosts: Sequence[Any], timeout_s: float) -> Fleet:
        """The machines of a run of pyinfra that is under way."""
        made = cls.__new__(cls)
        made.state, made.hosts, made.timeout_s = state, list(hosts), timeout_s
        return made

    def ask(self, question: Question, hosts: Sequence[Any] | None = None) -> list[Answer]:
        """
        Ask every machine at once; the answers come in the inventory's order.

        + question: program and spec from a machine's data; a SparkwrightError of it is the answer
        + hosts: some of `self.hosts`; all without it
        """

        import gevent

        chosen = self.hosts if hosts is None else hosts
        with quiet():
            jobs = [gevent.spawn(self._one, host, question) for host in chosen]
            gevent.joinall(jobs)
        return [job.get() for job in jobs]

    def leave(self) -> None:
        """Take pyinfra's helper for a sudo password away, a file in /tmp; without one do nothing.

        pyinfra does so when it disconnects, which no command of ours that only asks waits for.
        """
        import gevent

        with quiet():
            there = [host for host in self.hosts if host.connected]
            jobs = [gevent.spawn(remove_any_sudo_askpass_file, host) for host in there]
            gevent.joinall(jobs, timeout=LEAVE_S)

    def _one(self, host: Any, question: Question) -> Answer:
        import gevent

        data: Mapping[str, Any] = {}
        try:
            data = host.data.dict()
            program, spec = question(host.name, data)
            with gevent.Timeout(self.timeout_s):
                host.connect(show_errors=False, raise_exceptions=True)
                said = _fact(self.state, host, program, spec)
        except gevent.Timeout:
            host.connected = False  # whatever is under way there belongs to no later look
            return Answer(host.name, data, None, f"no answer within {self.timeout_s:g} s")
        except Exception as error:  # a machine is a row, whatever is wrong with it
            host.connected = False
            return Answer(host.name, data, None, _line(error))
        return Answer(host.name, data, said)


def _fact(state: Any, host: Any, program: str, spec: str) -> Any:
    with ctx_state.use(state), ctx_host.use(host):
        # Not host.get_fact: with the last machine that fails it ends the run for all.
        found = get_fact(
            state, host, Program, kwargs={"program": program, "spec": spec},
            apply_failed_hosts=False,
        )  # fmt: skip
    if found is None:
        raise SparkwrightError("cannot be asked: python3 or sudo refused; see `sparkwright check`")
    return found


def _line(error: Exception) -> str:
    text = " ".join(str(part) for part in error.args) or type(error).__name__
    return " ".join(text.split())


def _data(pairs: Sequence[str]) -> dict[str, Any]:
    """--data as pyinfra's own command line reads it."""
    from pyinfra_cli.util import parse_cli_arg

    wrong = [pair for pair in pairs if "=" not in pair]
    if wrong:
        raise SparkwrightError(f"--data {wrong[0]}: has no value; write --data KEY=VALUE")
    found = (pair.split("=", 1) for pair in pairs)
    return {key: parse_cli_arg(value) for key, value in found}


def _limited(hosts: list[Any], limits: Sequence[str]) -> list[Any]:
    """The hosts that --limit names, or all. Raises SparkwrightError for one that names nobody."""
    members: dict[str, list[str]] = {"all": [host.name for host in hosts]}
    for host in hosts:
        for group in host.groups:
            members.setdefault(group, []).append(host.name)
    if not limits:
        return hosts
    refuse(list(limits), (), members)
    wanted = {name for limit in limits for name in matches(limit, members)}
    return [host for host in hosts if host.name in wanted]


@contextmanager
def quiet() -> Iterator[None]:
    """Keep pyinfra's and paramiko's log away: what is wrong is in the answers."""
    loggers = [logging.getLogger(name) for name in ("pyinfra", "paramiko")]
    before = [(logger.propagate, logger.level) for logger in loggers]
    for logger in loggers:
        logger.propagate, logger.level = False, logging.CRITICAL + 1
    try:
        yield
    finally:
        for logger, (propagate, level) in zip(loggers, before, strict=True):
            logger.propagate, logger.level = propagate, level
