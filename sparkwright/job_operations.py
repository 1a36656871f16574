"""Operation on long work: start or join it, follow it, and say why it failed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyinfra import host as current_host
from pyinfra import logger
from pyinfra.api import FunctionCommand, operation

from sparkwright import interrupts, report
from sparkwright.facts import ask
from sparkwright.jobs import Job, JobPlan, describe, start_commands
from sparkwright.operations import Commands, as_pyinfra, guarded
from sparkwright.resources import Spec, State

POLL_S = 1.0
SAY_EVERY_S = 10.0  # progress lines: often enough to see life, seldom enough to read


def _read(text: str) -> dict[str, Any]:
    try:
        progress: dict[str, Any] = json.loads(text or "{}")
    except ValueError:  # seen between two writes of a program that does not rename
        return {}
    return progress


def watch(state: Any, host: Any, job: Job) -> bool:
    """Follow a job until its unit is gone; True when its mark then holds the digest."""
    try:
        return _follow(host, job)
    except ConnectionError:
        report.record("problem", host, f"{job.label}: the connection was lost while it ran")
        logger.error(
            f"{host.print_prefix}{job.label}: the connection was lost; the work goes on in "
            f"{job.unit}, run again to join it"
        )
        return False


def _follow(host: Any, job: Job) -> bool:
    specs: list[Spec] = [
        {"kind": "unit", "name": job.unit},
        {"kind": "path", "path": f"{job.directory}/progress", "text": True},
        {"kind": "path", "path": f"{job.directory}/done", "text": True},
    ]
    said, at = "", 0.0
    while True:
        unit, progress, done = ask(host, specs)
        line = describe(_read(progress.get("text", "")))
        if line != said and time.monotonic() - at >= SAY_EVERY_S:
            logger.info(f"{host.print_prefix}{job.label}: {line}")
            said, at = line, time.monotonic()
        if unit.get("ActiveState") not in ("active", "activating", "deactivating", "reloading"):
            break
        if interrupts.came():
            return False
        time.sleep(POLL_S)
    if done.get("text", "").strip() == job.digest:
        logger.info(f"{host.print_prefix}{job.label}: {line}")
        return True
    failed(host, job, _read(progress.get("text", "")))
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


@operation()
@guarded
def detached(specs: Sequence[Spec], plan: Callable[[list[State]], JobPlan]) -> Commands:
    """
    Do long work when its stamp does not record its inputs; show progress meanwhile.

    + specs: questions that the plan needs answered
    + plan: pure function from the answers to what has to happen
    """

    wanted = plan(ask(current_host, specs))
    for text in wanted.notes:
        report.note(current_host, text)
    if not wanted.drift:
        current_host.noop("the stamp records these inputs")
        return
    report.drift(current_host, list(wanted.drift))
    yield from map(as_pyinfra, wanted.before)
    if wanted.job is not None:
        yield from map(as_pyinfra, start_commands(wanted.job))
        yield FunctionCommand(watch, [wanted.job], {})
    yield from map(as_pyinfra, wanted.after)
