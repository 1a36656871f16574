"""`sparkwright converge`: `pyinfra inventory.py deploy.py -y` with a summary and honest exits."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence

from sparkwright import pyinfra_run, summary
from sparkwright.pyinfra_run import Outcome

WORDS = ("done", "failed", "lost", "untouched")
EPILOG = """exit code: 0 the machines are as wanted, 2 something went wrong
example: sparkwright converge --limit spark-1"""


def parser() -> argparse.ArgumentParser:
    """The options."""
    text = "Make the machines be as the fleet file says, then say what happened."
    return pyinfra_run.parser("converge", text, EPILOG)


def changed(outcome: Outcome) -> int:
    """Operations that changed a machine, summed over machines."""
    operations = (outcome.result or {}).get("results", {}).get("operations", [])
    return sum(len(op["success"]) for op in operations)


def failed(outcome: Outcome) -> bool:
    """Whether anything at all went wrong; an aborted run prints no object."""
    results = (outcome.result or {}).get("results")
    return outcome.rc != 0 or not results or bool(results["failed_hosts"])


def rollout(outcome: Outcome) -> dict[str, str]:
    """Machine -> done, failed, untouched or lost, where what runs had to change; as said last."""
    return {row["host"]: row["what"] for row in outcome.findings if row["kind"] == "rollout"}


def ends(found: Mapping[str, str]) -> list[str]:
    """The rollout in a line, when it did not reach its end."""
    if set(found.values()) <= {"done"}:
        return []
    words = {word: [n for n, end in found.items() if end == word] for word in WORDS}
    parts = [f"{word} {', '.join(names)}" for word, names in words.items() if names]
    return [f"rollout: {'; '.join(parts)}"]


def as_object(outcome: Outcome, count: int, bad: bool) -> dict[str, object]:
    """The run for programs."""
    return {
        "changed": count,
        "failed": bad,
        "changes": outcome.of("changed"),
        "started": outcome.of("started"),
        "accepted": outcome.of("accepted"),
        "endpoints": outcome.of("endpoint"),
        "rollout": rollout(outcome),
        "problems": outcome.of("problem"),
        "log": outcome.log if bad else "",
    }


def main(argv: Sequence[str]) -> int:
    """Converge, then say in a few lines what happened; exit 0 or 2."""
    options = parser().parse_args(list(argv))
    pyinfra_run.check_limits(options)
    outcome = pyinfra_run.run(
        ["-y", *pyinfra_run.words(options)], quiet=options.json, inventory=options.inventory
    )
    count, bad = changed(outcome), failed(outcome)
    if options.json:
        print(json.dumps(as_object(outcome, count, bad), indent=1))
        return 2 if bad else 0
    # What failed comes first. A line about the lock is every machine's; once is enough.
    for what in dict.fromkeys(row["what"] for row in outcome.of("problem") if bad):
        print(what)
    for line in summary.lines(outcome.findings):
        print(line)
    print("".join(f"{line}\n" for line in ends(rollout(outcome))), end="")
    print(f"{count} operation(s) changed something" + ("; the run FAILED" if bad else ""))
    return 2 if bad else 0
