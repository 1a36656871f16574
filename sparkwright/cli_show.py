"""`sparkwright show RECIPE`: the unit that a converge wants on a machine, and its exact command."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sparkwright.cli_status import connect
from sparkwright.cli_status import parser as status_parser
from sparkwright.errors import SparkwrightError

if TYPE_CHECKING:
    from sparkwright.show import Shown

EPILOG = """exit code: 0 shown, 1 the installed build refuses it, 2 a machine could not be asked
example: sparkwright show gpt-oss-120b --print --limit spark-1"""


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = status_parser("show", "The unit that a converge wants, for the build that is installed.")
    made.epilog, made.formatter_class = EPILOG, argparse.RawDescriptionHelpFormatter
    made.add_argument("recipe", metavar="RECIPE", help="a recipe that a machine serves")
    made.add_argument("--print", action="store_true", dest="command",
                      help="only the command, as one line for a shell")  # fmt: skip
    return made


def main(argv: Sequence[str]) -> int:
    """Show it; see EPILOG for the exit codes."""
    options = parser().parse_args(list(argv))
    fleet = connect(options)

    from sparkwright import show

    def question(name: str, data: Mapping[str, Any]) -> tuple[str, str]:
        return show.question(data, options.recipe)

    hosts = [host for host in fleet.hosts if show.serves(host.data.dict(), options.recipe)]
    if not hosts:
        raise SparkwrightError(f"no machine serves {options.recipe}; see `sparkwright status`")
    found = [show.shown(answer, options.recipe) for answer in fleet.ask(question, hosts)]
    if options.json:
        print(json.dumps({"units": [show.as_json(one) for one in found]}, indent=1))
    else:
        _print(found, options.command)
    return max(one.code for one in found)


def _print(found: Sequence[Shown], command: bool) -> None:
    """The command alone can be pasted: what is about it goes elsewhere."""
    for one in found:
        head = f"# {one.machine}: {one.drift or one.why or 'as it is on the machine'}"
        if one.why:
            print(head, file=sys.stderr)
        elif command:
            print(head, file=sys.stderr)
            print(one.command)
        else:
            print(f"{head}\n# {one.path}\n{one.text}")
        for what in one.refused:
            print(f"# {one.machine}: refused: {what}", file=sys.stderr)
