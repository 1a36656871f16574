"""`sparkwright doctor`: from symptoms to causes, on the live machines; nothing is changed."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sparkwright.cli_status import connect
from sparkwright.cli_status import parser as status_parser
from sparkwright.cli_verify import proved
from sparkwright.doctor import SYMPTOMS, chosen, findings

if TYPE_CHECKING:
    from sparkwright.doctor import Cause, Finding
    from sparkwright.status_ask import Fleet
    from sparkwright.status_rows import MachineRow

MEMORY = "memory"
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
    machines, found, lost = examine(connect(options), causes, options.symptom)
    if options.json:
        print(json.dumps(as_json(machines, found, lost), indent=1))
    else:
        print("\n".join([*lines(found, len(causes)), *memory(machines, found, options.symptom)]))
        print("\n".join(lost), file=sys.stderr, end="\n" if lost else "")
    return 2 if lost else 1 if found else 0


def examine(
    fleet: Fleet, causes: Sequence[Cause], symptom: str | None
) -> tuple[list[MachineRow], list[Finding], list[str]]:
    """The machines, what they show, and what could not be asked, a line each."""
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
            parts = doctor_texts.workers(answer.data)
            texts = doctor_texts.texts(machine, answer.data, answer.said, mine, parts)
            found += findings(machine, texts, causes, symptom)
    return machines, found, lost


def lines(found: Sequence[Finding], causes: int) -> list[str]:
    """The answer for people."""
    shown = []
    for one in found:
        shown.append(f"{f'{one.machine} {one.recipe}'.strip()}: {one.cause}")
        shown += [f"  seen: {one.seen}", f"  do:   {one.fix}"]
    if not found:
        shown.append(f"none of {causes} known causes shows; next: `sparkwright verify`")
    return shown


def memory(
    machines: Sequence[MachineRow], found: Sequence[Finding], symptom: str | None
) -> list[str]:
    """Who holds the memory of machines that lack it, or of all when that is asked for."""
    from sparkwright import status_text

    lack = {one.machine for one in found if one.symptom == MEMORY}
    return status_text.holders([m for m in machines if symptom == MEMORY or m.name in lack])


def as_json(
    machines: Sequence[MachineRow], found: Sequence[Finding], lost: Sequence[str]
) -> dict[str, Any]:
    """The object of docs/schemas/doctor.json."""
    from sparkwright import status_text

    return {
        "findings": [dataclasses.asdict(one) for one in found],
        "memory": [{"machine": one.name, **status_text.memory(one)} for one in machines],
        "unknown": list(lost),
    }
