"""`sparkwright status`: every machine and recipe on one page; nothing is changed."""

from __future__ import annotations

import argparse
import atexit
import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sparkwright.errors import SparkwrightError
from sparkwright.pyinfra_run import parser as shared

if TYPE_CHECKING:
    from sparkwright.status_ask import Fleet
    from sparkwright.status_rows import MachineRow

NAME, TEXT = "status", "What runs where, and whether it is what the fleet file says."
EPILOG = """exit code: 0 all runs as wanted and has answered, 1 something needs somebody,
2 a machine could not be asked
example: sparkwright status --limit rack-a --watch"""


def parser(name: str = NAME, text: str = TEXT) -> argparse.ArgumentParser:
    """The options of a command that asks machines over a connection of its own.

    + name: without one, the options of `sparkwright status` itself
    """
    made = shared(name, text, EPILOG)
    made.add_argument("--timeout", type=_seconds, default=10.0, metavar="SECONDS",
                      help="a machine that takes longer is unknown")  # fmt: skip
    if name != NAME:
        return made
    made.add_argument("--watch", nargs="?", type=_seconds, const=5.0, metavar="SECONDS",
                      help="look again, every 5 seconds or as said, until Ctrl-C")  # fmt: skip
    made.add_argument("--memory", action="store_true",
                      help="also say which processes hold the memory")  # fmt: skip
    return made


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 86400:
        raise argparse.ArgumentTypeError(f"{text} is no number of seconds")
    return value


def main(argv: Sequence[str]) -> int:
    """Look once, or again and again; see EPILOG for the exit codes."""
    options = parser().parse_args(list(argv))
    fleet = connect(options)
    if options.watch is None:
        machines = look(fleet)
        _print(machines, options)
        return _code(machines)
    return _watch(fleet, options)


def connect(options: argparse.Namespace) -> Fleet:
    """The machines of the options. Raises SparkwrightError when the fleet file is wrong."""
    # First: it patches sockets before anything else here makes one.
    from sparkwright.status_ask import Fleet

    try:
        fleet = Fleet(options.inventory, options.limit, options.data, options.timeout)
    except SystemExit as error:  # how inventory.py ends with a fleet file that is wrong
        raise SparkwrightError(str(error)) from None
    atexit.register(fleet.leave)  # however the command ends, Ctrl-C too
    return fleet


def look(fleet: Fleet) -> list[MachineRow]:
    """One look at all machines."""
    from sparkwright.status_judge import machine, question

    return [machine(answer) for answer in fleet.ask(question)]


def _code(machines: Sequence[MachineRow]) -> int:
    from sparkwright.status_text import code

    return code(machines)


def _print(machines: Sequence[MachineRow], options: argparse.Namespace) -> None:
    from rich.console import Console

    from sparkwright import status_table, status_text

    if options.json:
        indent = None if options.watch else 1
        print(json.dumps(status_text.as_json(machines, time.time()), indent=indent), flush=True)
        return
    # Not a terminal: no colour, and lines as long as they are, for grep.
    console = Console(width=None if sys.stdout.isatty() else 240, highlight=False)
    shown = status_table.show(machines, time.time(), console.width)
    console.print(shown.table)
    lines = status_text.holders(machines) if options.memory else []
    for line in [*shown.lines, *lines]:
        console.print(line, markup=False, soft_wrap=True)


def _watch(fleet: Fleet, options: argparse.Namespace) -> int:
    from sparkwright.status_rate import Rates

    rates, machines = Rates(), []
    with _screen(options) as show:
        try:
            while True:
                began = time.monotonic()
                machines = rates.update(look(fleet), began)
                show(machines)
                time.sleep(max(0.0, options.watch - (time.monotonic() - began)))
        except KeyboardInterrupt:  # the way out of a watch is no error
            return _code(machines)


@contextmanager
def _screen(options: argparse.Namespace) -> Iterator[Any]:
    """How looks are shown: one table that is renewed in a terminal, else one after the other."""
    if options.json or not sys.stdout.isatty():
        yield lambda machines: _print(machines, options)
        return
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    from sparkwright import status_table, status_text

    with Live(auto_refresh=False) as live:

        def show(machines: Sequence[MachineRow]) -> None:
            shown = status_table.show(machines, time.time(), live.console.width)
            lines = status_text.holders(machines) if options.memory else []
            live.update(Group(shown.table, *map(Text, [*shown.lines, *lines])), refresh=True)

        yield show
