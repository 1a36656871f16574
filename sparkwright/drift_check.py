"""Runs the check that leaves its result for Prometheus: machine by machine where it has to be."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path

from sparkwright import drift_metrics, pyinfra_run
from sparkwright.cli_status import connect
from sparkwright.errors import SparkwrightError
from sparkwright.pyinfra_run import Outcome
from sparkwright.site import planned

Verdict = Callable[[Outcome], int]


def leave(path: Path, options: argparse.Namespace, outcome: Outcome, verdict: Verdict) -> None:
    """
    Write the gauges of a check.

    + outcome: of the whole fleet; when it could not judge everything (a machine is off, and a
      converge would stop before it touches any), each machine is judged by itself
    + verdict: 0 in sync, 1 drift, 2 not judged

    Raises SparkwrightError when the file cannot be written.
    """
    machines = []
    for host in connect(argparse.Namespace(**vars(options), timeout=10.0)).hosts:
        own = outcome
        if verdict(outcome) == 2:
            words = ["--dry", "--limit", host.name]
            words += [word for pair in options.data for word in ("--data", pair)]
            own = pyinfra_run.run(words, quiet=True, inventory=options.inventory)
        whats = [row["what"] for row in own.of("drift") if row["host"] == host.name]
        try:
            items, known = planned(host.data.dict()), verdict(own) != 2
        except SparkwrightError:
            items, known = (), False
        machines.append(drift_metrics.drift_of(host.name, items, whats if known else None))
    write(path, drift_metrics.text(machines, time.time()))


def nothing(path: Path) -> None:
    """The fleet file is wrong: no machine is known, and no old number may stay."""
    write(path, drift_metrics.text([], time.time()))


def write(path: Path, text: str) -> None:
    """Replace the file whole, for node_exporter may read at any moment. Raises SparkwrightError."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with beside.open("w") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        beside.chmod(0o644)  # node_exporter runs as another account
        beside.replace(path)
    except OSError as error:
        raise SparkwrightError(f"{error.filename}: {error.strerror}; no gauges written") from error
    finally:
        beside.unlink(missing_ok=True)
