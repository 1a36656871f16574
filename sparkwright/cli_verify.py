"""`sparkwright verify`: every proof of a converge again, on what runs; nothing is restarted."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparkwright.cli_status import connect
from sparkwright.cli_status import parser as status_parser

if TYPE_CHECKING:
    from sparkwright.status_ask import Answer, Fleet
    from sparkwright.status_rows import MachineRow
    from sparkwright.verify_checks import Check

EPILOG = """exit code: 0 all well, 1 something is wrong, 2 something could not be checked
example: sparkwright verify --limit spark-1 --html verify.html"""


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = status_parser("verify", "Ask, compare and check what runs. Restarts nothing.")
    made.epilog, made.formatter_class = EPILOG, argparse.RawDescriptionHelpFormatter
    made.add_argument("--deep", action="store_true", help="hash every byte of the weights again")
    made.add_argument("--bandwidth", action="store_true",
                      help="also measure between members of clusters, at most 4 GB")  # fmt: skip
    made.add_argument("--html", type=Path, metavar="FILE", help="also write one page")
    made.set_defaults(timeout=900.0)  # questions, and 65 GB to hash
    return made


def main(argv: Sequence[str]) -> int:
    """Check, show, and say how it went; see EPILOG for the exit codes."""
    options = parser().parse_args(list(argv))
    fleet = connect(options)

    from sparkwright import verify_checks, verify_text

    made, now = run(fleet, options.deep, options.bandwidth), time.time()
    if options.html:
        options.html.write_text(verify_text.page(made, now))
    if options.json:
        print(json.dumps(verify_text.as_json(made, now), indent=1))
    else:
        print("\n".join(verify_text.lines(made)))
    return verify_checks.code(made)


def run(fleet: Fleet, deep: bool, bandwidth: bool = False) -> list[Check]:
    """Every check of every machine, and between them."""
    from sparkwright import cli_verify_fabric, verify_checks

    machines, made, answers = proved(fleet, deep)
    linked = cli_verify_fabric.checks(fleet, {row.name: row for row in machines}, bandwidth)
    return [*made, *linked, *verify_checks.across(machines, answers)]


def proved(fleet: Fleet, deep: bool) -> tuple[list[MachineRow], list[Check], list[Answer]]:
    """Every machine, its checks, and its answers: what runs first, then questions to what runs."""
    from sparkwright import status_judge, verify_checks

    first = {answer.name: answer for answer in fleet.ask(status_judge.question)}
    machines = {name: status_judge.machine(answer) for name, answer in first.items()}

    def question(name: str, data: Mapping[str, Any]) -> tuple[str, str]:
        return verify_checks.question(name, data, first[name], machines[name].rows, deep)

    reached = [host for host in fleet.hosts if machines[host.name].reached]
    second = {answer.name: answer for answer in fleet.ask(question, reached)}
    made = [check for name, machine in machines.items()
            for check in verify_checks.checks(machine, second.get(name))]  # fmt: skip
    return list(machines.values()), made, list(second.values())
