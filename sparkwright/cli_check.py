"""`sparkwright check`: what would a converge change? Nothing is changed."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from sparkwright import pyinfra_run
from sparkwright.errors import SparkwrightError
from sparkwright.pyinfra_run import Outcome

IN_SYNC, DRIFT, ERROR = 0, 1, 2
EPILOG = """exit code: 0 in sync, 1 something differs, 2 it could not be judged
example: sparkwright check --json --prometheus /var/lib/node_exporter/sparkwright.prom"""


def parser() -> argparse.ArgumentParser:
    """The options."""
    text = "What would a converge change? Nothing is changed."
    made = pyinfra_run.parser("check", text, EPILOG)
    made.add_argument("--prometheus", type=Path, metavar="FILE",
                      help="also leave the result for Prometheus' textfile collector")  # fmt: skip
    return made


def verdict(outcome: Outcome) -> int:
    """0 in sync, 1 drift, 2 when a machine or a file could not be judged."""
    if outcome.rc != 0 or outcome.result is None or outcome.of("problem"):
        return ERROR
    pending = [op for op in outcome.result["plan"] if op["hosts_with_change"]]
    return DRIFT if pending or outcome.of("drift") else IN_SYNC


def lines(outcome: Outcome, code: int) -> list[str]:
    """The report for people."""
    shown = [f"{row['host']}: {row['what']}" for row in outcome.of("drift")]
    if code == ERROR:
        shown += [row["what"] for row in outcome.of("problem")] or [outcome.log.strip()]
    ends = {
        IN_SYNC: "in sync",
        DRIFT: f"{len(shown)} difference(s); `sparkwright converge` mends them",
        ERROR: "could not judge everything",
    }
    return [*shown, ends[code]]


def main(argv: Sequence[str]) -> int:
    """Run the deploy without executing it and say what differs."""
    options = parser().parse_args(list(argv))
    try:
        return _check(options)
    except SparkwrightError:
        if options.prometheus:
            from sparkwright import drift_check

            drift_check.nothing(options.prometheus)
        raise


def _check(options: argparse.Namespace) -> int:
    pyinfra_run.check_limits(options)
    outcome = pyinfra_run.run(
        ["--dry", *pyinfra_run.words(options)], quiet=True, inventory=options.inventory
    )
    code = verdict(outcome)
    if options.json:
        states = {IN_SYNC: "in_sync", DRIFT: "drift", ERROR: "error"}
        print(
            json.dumps(
                {
                    "state": states[code],
                    "drift": outcome.of("drift"),
                    "problems": outcome.of("problem"),
                    "notes": outcome.of("note"),
                    "log": outcome.log if code == ERROR else "",
                },
                indent=1,
            )
        )
    else:
        print("\n".join(lines(outcome, code)), file=sys.stderr if code == ERROR else sys.stdout)
    if options.prometheus:
        from sparkwright import drift_check

        drift_check.leave(options.prometheus, options, outcome, verdict)
    return code
