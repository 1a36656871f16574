"""The thin console script: the same run as `pyinfra inventory.py deploy.py`, with honest exits."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from sparkwright import cli_check, cli_converge, cli_lock
from sparkwright.errors import SparkwrightError

COMMANDS: dict[str, tuple[Callable[[Sequence[str]], int], str]] = {
    "check": (
        cli_check.main,
        "say what differs, change nothing (exit 0 in sync, 1 drift, 2 error)",
    ),
    "converge": (cli_converge.main, "make the machines be as the fleet file says"),
    "lock": (cli_lock.main, "resolve and record what a converge needs from outside"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Dispatch to a command; a problem of the user's files is one message and exit 2."""
    words = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(prog="sparkwright", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (_, text) in COMMANDS.items():
        commands.add_parser(name, help=text, add_help=False)
    chosen = parser.parse_args(words[:1]).command
    try:
        return COMMANDS[chosen][0](words[1:])
    except SparkwrightError as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
