"""Follows long work on a machine, and says why it failed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from pyinfra import logger

from sparkwright import interrupts, report
from sparkwright.facts import ask
from sparkwright.jobs import Job, describe
from sparkwright.resources import Spec

# Called with the machine and the job's progress at every look.
Look = Callable[[Any, Mapping[str, Any]], None]

POLL_S = 0.5  # a look over the open conversation costs milliseconds, and the end is seen sooner
SAY_EVERY_S = 10.0  # progress lines: often enough to see life, seldom enough to read


def _read(text: str) -> dict[str, Any]:
    try:
        progress: dict[str, Any] = json.loads(text or "{}")
    except ValueError:  # seen between two writes of a program that does not rename
        return {}
    return progress


def watch(state: Any, host: Any, job: Job, look: Look | None = None, failing: bool = True) -> bool:
    """
    Follow a job until its unit is gone; True when its mark then holds the digest.

    + failing: whether a job that does not finish is a problem of this machine
    """
    try:
        return _follow(host, job, look, failing)
    except ConnectionError:
        report.record("problem", host, f"{job.label}: the connection was lost while it ran")
        logger.error(
            f"{host.print_prefix}{job.label}: the connection was lost; the work goes on in "
            f"{job.unit}, run again to join it"
        )
        return False


def _follow(host: Any, job: Job, look: Look | None, failing: bool) -> bool:
    specs: list[Spec] = [
        {"kind": "unit", "name": job.unit},
        {"kind": "path", "path": f"{job.directory}/progress", "text": True},
        {"kind": "path", "path": f"{job.directory}/done", "text": True},
    ]
    said, at = "", 0.0
    while True:
        unit, progress, done = ask(host, specs)
        told = _read(progress.get("text", ""))
        line = describe(told)
        if line != said and time.monotonic() - at >= SAY_EVERY_S:
            logger.info(f"{host.print_prefix}{job.label}: {line}")
            said, at = line, time.monotonic()
        if unit.get("ActiveState") not in ("active", "activating", "deactivating", "reloading"):
            break
        if look:
            look(host, told)
        if interrupts.came():
            return False
        time.sleep(POLL_S)
    if done.get("text", "").strip() == job.digest:
        logger.info(f"{host.print_prefix}{job.label}: {line}")
        return True
    if failing:
        failed(host, job, told)
    return False


def failed(host: Any, job: Job, progress: Mapping[str, Any]) -> None:
    """Say why a job did not finish: its own message and the end of its journal."""
    tail = ["journalctl", "--no-pager", "-o", "cat", "-n", "25", "-u", job.unit]
    log = ask(host, [{"kind": "run", "argv": tail}])[0].get("out", "")
    message = str(progress.get("message") or "it ended without its mark")
    report.record("problem", host, f"{job.label}: {message}")
    logger.error(
        f"{host.print_prefix}{job.label}: failed: {message}; its journal ends:\n{log}"
        f"see `journalctl -u {job.unit}` on {host.name}"
    )
