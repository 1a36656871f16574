"""`sparkwright doctor`: from symptoms to causes, on the live machines; nothing is changed."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sparkwright.cli_status import connect
from sparkwright.cli_status import parser as status_parser
from sparkwright.cli_verify import proved
from sparkwright.doctor import SYMPTOMS, chosen, findings

if TYPE_CHECKING:
    from sparkwright.doctor import Cause, Finding
    from sparkwright.status_ask import Fleet

EPILOG = """symptoms:
{symptoms}
exit code: 0 no known cause shows, 1 some do, 2 a machine could not be asked
example: sparkwright doctor memory --limit spark-1"""


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = status_parser("doctor", "Search logs and machines for causes that people have met.")
    told = "\n".join(f"  {name:<11}{what}" for name, what in SYMPTOMS.items())
    made.epilog = EPILOG.format(symptoms=told)
    made.formatter_class = argparse.RawDescriptionHelpFormatter
    made.add_argument("symptom", nargs="?", metavar="SYMPTOM", help="one of those below; else all")
    made.set_defaults(timeout=300.0)  # models are asked their questions
    return made


def main(argv: Sequence[str]) -> int:
    """Search; see EPILOG for the exit codes."""
    options = parser().parse_args(list(argv))
    causes = chosen(options.symptom)
    found, lost = examine(connect(options), causes, options.symptom)
    if options.json:
        rows = [dataclasses.asdict(finding) for finding in found]
        print(json.dumps({"findings": rows, "unknown": lost}, indent=1))
    else:
        print("\n".join(lines(found, len(causes))))
        print("\n".join(lost), file=sys.stderr, end="\n" if lost else "")
    return 2 if lost else 1 if found else 0


def examine(
    fleet: Fleet, causes: Sequence[Cause], symptom: str | None
) -> tuple[list[Finding], list[str]]:
    """What machines show, and what could not be asked, a line each."""
    from sparkwright import doctor_texts

    machines, checks, _ = proved(fleet, deep=False)
    answers = {answer.name: answer for answer in fleet.ask(doctor_texts.question)}
    found = []
    lost = [f"{c.machine} {c.recipe}: {c.seen}" for c in checks if c.ok is None and c.recipe]
    for machine in machines:
        answer, mine = answers[machine.name], [c for c in checks if c.machine == machine.name]
        if answer.said is None:
            lost.append(f"{answer.name}: {answer.why}")
        else:
            texts = doctor_texts.texts(machine, answer.data, answer.said, mine)
            found += findings(machine, texts, causes, symptom)
    return found, lost


def lines(found: Sequence[Finding], causes: int) -> list[str]:
    """The answer for people."""
    shown = []
    for one in found:
        shown.append(f"{f'{one.machine} {one.recipe}'.strip()}: {one.cause}")
        shown += [f"  seen: {one.seen}", f"  do:   {one.fix}"]
    if not found:
        shown.append(f"none of {causes} known causes shows; next: `sparkwright verify`")
    return shown
