"""The thin console script: the same run as `pyinfra inventory.py deploy.py`, with honest exits."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from types import FrameType

from sparkwright import completion
from sparkwright.errors import SparkwrightError

# name -> what it does; the module is sparkwright/cli_<name>.py.
COMMANDS: dict[str, str] = {
    "bench": "measure what runs beside its roof (exit 0 measured, 1 slow or failed)",
    "bundle": "fill a directory with everything that an air gap needs, or verify one",
    "check": "say what differs, change nothing (exit 0 in sync, 1 drift, 2 error)",
    "completion": "print what bash, zsh or fish needs to complete these commands",
    "converge": "make the machines be as the fleet file says",
    "doctor": "search logs and machines for causes that are known (exit 0 none, 1 some)",
    "fit": "say whether a recipe fits a machine, and for how many users (exit 0 yes, 1 no)",
    "lint": "say what programs in units, scripts, recipes really get (exit 0 clean, 1 BLOCK)",
    "lock": "resolve and record what a converge needs from outside",
    "logs": "show the journals of what is served, from all machines at once",
    "report": "collect what a bug report needs, without secrets, serial numbers and addresses",
    "show": "print the unit and the exact command that a converge wants on a machine",
    "status": "show what runs where, and whether it is what is wanted (exit 0, 1 no, 2 unknown)",
    "verify": "prove again what runs: questions, log, weights (exit 0, 1 wrong, 2 unknown)",
    "weights": "list, prove, repair and prune the weights on the machines",
}


INTERRUPTED = 130  # as shells say it: 128 + SIGINT


def main(argv: Sequence[str] | None = None) -> int:
    """Dispatch to a command; a problem of the user's files is one message and exit 2."""
    if completion.ASKED in os.environ:
        completion.answer(COMMANDS)
    words = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(prog="sparkwright", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, text in COMMANDS.items():
        commands.add_parser(name, help=text, add_help=False)
    chosen = parser.parse_args(words[:1]).command
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        return command(chosen)(words[1:])
    except SparkwrightError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:  # pyinfra itself would exit with 0
        print(
            "interrupted; builds and downloads that were started go on, the next run joins them",
            file=sys.stderr,
        )
        return INTERRUPTED


def command(name: str) -> Callable[[Sequence[str]], int]:
    """A command's main function; only its own module is loaded, some bring large libraries."""
    found: Callable[[Sequence[str]], int] = import_module(f"sparkwright.cli_{name}").main
    return found


def _interrupt(number: int, frame: FrameType | None) -> None:
    """A polite end counts as Ctrl-C, so that pyinfra ends with us."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
