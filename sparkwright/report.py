"""What a run found and did, for people at once and for `sparkwright check` as JSON lines."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from pyinfra import logger, state
from pyinfra.api.state import StateStage

FINDINGS = "SPARKWRIGHT_FINDINGS"  # environment variable: file that gets one JSON object a line


def record(kind: str, host: Any, what: str) -> None:
    """
    Write one line for machines, when somebody wants it.

    + kind: drift, changed, problem, accepted, note
    """

    place = os.environ.get(FINDINGS)
    if not place:
        return
    line = {"kind": kind, "host": getattr(host, "name", str(host)), "what": what}
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
