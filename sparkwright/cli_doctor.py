"""`sparkwright doctor`: from symptoms to causes, on the live machines; nothing is changed."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sparkwright.cli_status import connect, look
from sparkwright.cli_status import parser as status_parser

if TYPE_CHECKING:
    from sparkwright.doctor import Finding

EPILOG = """exit code: 0 no known cause shows, 1 some do, 2 a machine could not be asked
example: sparkwright doctor memory --limit spark-1"""


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = status_parser("doctor", "Search logs and machines for causes that people have met.")
    made.epilog, made.formatter_class = EPILOG, argparse.RawDescriptionHelpFormatter
    made.add_argument("symptom", nargs="?", metavar="SYMPTOM",
                      help="crash, disk, gpu, memory, network, offline, port, slow, storm, "
                      "vocabulary, wedge, weights; default: all")  # fmt: skip
    made.set_defaults(timeout=60.0)
    return made


def main(argv: Sequence[str]) -> int:
    """Search; see EPILOG for the exit codes."""
    options = parser().parse_args(list(argv))
    fleet = connect(options)

    from sparkwright import doctor

    causes = doctor.chosen(options.symptom)
    machines, found, lost = look(fleet), [], []
    answers = fleet.ask(doctor.question)
    for machine, answer in zip(machines, answers, strict=True):
        if answer.said is None:
            lost.append(f"{answer.name}: {answer.why}")
        else:
            found += doctor.findings(machine, answer.data, answer.said, causes)
    if options.json:
        rows = [dataclasses.asdict(finding) for finding in found]
        print(json.dumps({"findings": rows, "unknown": lost}, indent=1))
    else:
        print("\n".join(lines(found, len(causes))))
        print("\n".join(lost), file=sys.stderr, end="\n" if lost else "")
    return 2 if lost else 1 if found else 0


def lines(found: Sequence[Finding], causes: int) -> list[str]:
    """The answer for people."""
    shown = []
    for one in found:
        shown.append(f"{f'{one.machine} {one.recipe}'.strip()}: {one.cause}")
        shown += [f"  seen: {one.seen}", f"  do:   {one.fix}"]
    if not found:
        shown.append(f"none of {causes} known causes shows; next: `sparkwright verify`")
    return shown
