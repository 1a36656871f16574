"""What a run found and did, for people at once and for `sparkwright check` as JSON lines."""

from __future__ import annotations

import atexit
import json
import os
import sys
from pathlib import Path
from typing import Any

from pyinfra import logger, state
from pyinfra.api.state import StateStage

from sparkwright import summary

FINDINGS = "SPARKWRIGHT_FINDINGS"  # environment variable: file that gets one JSON object a line
_SAID: list[dict[str, str]] = []  # of this run, for the summary at its end


def record(kind: str, host: Any, what: str) -> None:
    """
    Keep one line for the summary, and write it for machines when somebody wants it.

    + kind: drift, changed, started, accepted, endpoint, problem, note
    """

    place = os.environ.get(FINDINGS)
    line = {"kind": kind, "host": getattr(host, "name", str(host)), "what": what}
    _SAID.append(line)
    if not place:
        return
    with Path(place).open("a") as out:
        out.write(json.dumps(line) + "\n")


def drift(host: Any, found: list[str]) -> None:
    """Name every difference: as drift while preparing, as a change while executing."""
    executing = state.current_stage == StateStage.Execute
    for what in found:
        record("changed" if executing else "drift", host, what)
        logger.info(f"{host.print_prefix}{'changing' if executing else 'drift'}: {what}")


def problem(host: Any, what: str) -> None:
    """Say what went wrong beside pyinfra's own words."""
    record("problem", host, what)
    logger.error(what)


def note(host: Any, what: str) -> None:
    """Say something that is neither drift nor failure."""
    record("note", host, what)
    logger.info(f"{host.print_prefix}{what}")


def summarize() -> None:
    """
    Print the summary when this run ends, if it changed anything; `sparkwright` prints its own.

    pyinfra has no hook for the end of a run; Python has one.
    """
    if not os.environ.get(FINDINGS):
        atexit.unregister(_print)  # once, however many machines ask for it
        atexit.register(_print)


def _print() -> None:
    for line in summary.lines(_SAID):
        print(line, file=sys.stderr)
