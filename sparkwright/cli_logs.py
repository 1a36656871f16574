"""`sparkwright logs`: the journal of what is served, from all machines at once."""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sparkwright.cli_status import connect
from sparkwright.cli_status import parser as status_parser
from sparkwright.errors import SparkwrightError

EPILOG = """exit code: 0 lines were shown, 1 there were none, 2 a machine could not be asked
example: sparkwright logs gpt-oss-120b --limit spark-1 --since=-1h"""
POLL_S = 1.0
# llama.cpp's log: minutes.seconds.milli.micro, then the level (common/log.cpp).
_LLAMA = re.compile(r"^\d+\.\d+\.\d+\.\d+ E ")


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = status_parser("logs", "Show the journal of served recipes. Reads only.")
    made.epilog, made.formatter_class = EPILOG, argparse.RawDescriptionHelpFormatter
    made.add_argument("recipes", nargs="*", metavar="RECIPE", help="default: all that are served")
    made.add_argument("-n", "--lines", type=int, default=50, metavar="N",
                      help="of each unit; default 50")  # fmt: skip
    made.add_argument(
        "--since", metavar="WHEN", help="as journalctl reads it: --since=-1h, --since yesterday, …"
    )
    made.add_argument("--boot", type=int, metavar="B",
                      help="-1: the boot before this one, the only witness of a wedge")  # fmt: skip
    made.add_argument("--causes", action="store_true",
                      help="only the first lines that name a reason for a failure")  # fmt: skip
    made.add_argument("-f", "--follow", action="store_true", help="go on until Ctrl-C")
    return made


def main(argv: Sequence[str]) -> int:
    """Show logs; see EPILOG for the exit codes."""
    options = parser().parse_args(list(argv))
    fleet = connect(options)
    cursors: dict[tuple[str, str], str] = {}
    code = _show(fleet, options, cursors)
    try:
        while options.follow:
            time.sleep(POLL_S)
            _show(fleet, options, cursors)
    except KeyboardInterrupt:  # the way out of following is no error
        pass
    return code


def units(data: Mapping[str, Any], recipes: Sequence[str]) -> list[str]:
    """Units of a machine that are asked for. Raises SparkwrightError when it cannot be planned."""
    from sparkwright.site import planned

    return [i.unit for i in planned(data) if not recipes or i.recipe.name in recipes]


def argv_of(unit: str, options: argparse.Namespace, cursor: str | None) -> list[str]:
    """The command that reads one unit's journal."""
    words = ["journalctl", "--no-pager", "--no-hostname", "--show-cursor"]
    # Causes are found in what the program itself wrote.
    words += ["-o", "cat" if options.causes else "short-iso"]
    words += ["-u", f"{unit}.service"]
    if options.since:
        words += ["--since", options.since]
    if options.boot is not None:
        words += ["-b", str(options.boot)]
    if cursor:
        return [*words, f"--after-cursor={cursor}"]
    return [*words, "-n", str(options.lines)]


def _question(
    options: argparse.Namespace, cursors: Mapping[tuple[str, str], str]
) -> Callable[[str, Mapping[str, Any]], tuple[str, str]]:
    """What each machine is asked."""

    def ask(name: str, data: Mapping[str, Any]) -> tuple[str, str]:
        wanted = units(data, options.recipes)
        argvs = [argv_of(unit, options, cursors.get((name, unit))) for unit in wanted]
        return "probe.py", json.dumps([{"kind": "run", "argv": argv} for argv in argvs])

    return ask


def _show(fleet: Any, options: argparse.Namespace, cursors: dict[tuple[str, str], str]) -> int:
    answers = fleet.ask(_question(options, cursors))
    known = {unit for a in answers if a.data for unit in units(a.data, ())}
    missing = [name for name in options.recipes if f"llm-{name}" not in known]
    if missing:
        raise SparkwrightError(f"no machine serves {', '.join(missing)}; see `sparkwright status`")
    shown, lost = 0, False
    for answer in answers:
        if answer.said is None:
            lost = True
            print(f"{answer.name}: {answer.why}", file=sys.stderr)
            continue
        for unit, state in zip(units(answer.data, options.recipes), answer.said, strict=True):
            lines, cursor = split(state.get("out", ""))
            if cursor:
                cursors[answer.name, unit] = cursor
            shown += _print(answer.name, unit, lines, options)
    return 2 if lost else 0 if shown else 1


def split(text: str) -> tuple[list[str], str | None]:
    """Lines of a journal and its cursor; journalctl's own remarks are no lines."""
    lines, cursor = [], None
    for line in text.splitlines():
        if line.startswith("-- cursor: "):
            cursor = line.removeprefix("-- cursor: ")
        elif not line.startswith("-- "):
            lines.append(line)
    return lines, cursor


def causes(lines: Sequence[str]) -> list[tuple[str, str]]:
    """
    Lines that name a reason, each once, each with doctor's name for it or "".

    Those with a name come first, then llama.cpp's own errors, then what failures show.
    """
    from sparkwright import doctor, journal

    known = [cause for cause in doctor.causes() if cause.where == "journal"]
    named: dict[str, str] = {}
    for text in map(journal.bare, lines):
        hit = next((cause.name for cause in known if re.search(cause.pattern, text)), None)
        if hit and len(named) < journal.CAUSES:
            named.setdefault(text, hit)
    own = [journal.bare(line) for line in lines if _LLAMA.search(line)][: journal.CAUSES]
    others = dict.fromkeys([*own, *journal.causes("\n".join(lines))], "")
    return list({**named, **others, **named}.items())


def _print(machine: str, unit: str, lines: list[str], options: argparse.Namespace) -> int:
    shown = causes(lines) if options.causes else [(line, "") for line in lines]
    recipe = unit.removeprefix("llm-")
    for line, cause in shown:
        if options.json:
            row = {"machine": machine, "recipe": recipe, "line": line, "cause": cause}
            print(json.dumps(row), flush=True)
        else:
            print(f"{machine} {recipe}: {f'{cause}: ' if cause else ''}{line}", flush=True)
    return len(shown)
