"""The thin console script: the same run as `pyinfra inventory.py deploy.py`, with honest exits."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable, Sequence
from types import FrameType

from sparkwright import cli_bundle, cli_check, cli_converge, cli_lint, cli_lock
from sparkwright.errors import SparkwrightError

COMMANDS: dict[str, tuple[Callable[[Sequence[str]], int], str]] = {
    "bundle": (
        cli_bundle.main,
        "fill a directory with everything that an air gap needs, or verify one (bundle verify DIR)",
    ),
    "check": (
        cli_check.main,
        "say what differs, change nothing (exit 0 in sync, 1 drift, 2 error)",
    ),
    "converge": (cli_converge.main, "make the machines be as the fleet file says"),
    "lint": (
        cli_lint.main,
        "say what programs in units, scripts, recipes really get (exit 0 clean, 1 BLOCK, 2 error)",
    ),
    "lock": (cli_lock.main, "resolve and record what a converge needs from outside"),
}


INTERRUPTED = 130  # as shells say it: 128 + SIGINT


def main(argv: Sequence[str] | None = None) -> int:
    """Dispatch to a command; a problem of the user's files is one message and exit 2."""
    words = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(prog="sparkwright", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (_, text) in COMMANDS.items():
        commands.add_parser(name, help=text, add_help=False)
    chosen = parser.parse_args(words[:1]).command
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        return COMMANDS[chosen][0](words[1:])
    except SparkwrightError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:  # pyinfra itself would exit with 0
        print(
            "interrupted; builds and downloads that were started go on, the next run joins them",
            file=sys.stderr,
        )
        return INTERRUPTED


def _interrupt(number: int, frame: FrameType | None) -> None:
    """A polite end counts as Ctrl-C, so that pyinfra ends with us."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
