"""Follows a start: what the laptop sees while a model loads, and why one failed."""

from __future__ import annotations

import re
import time
from typing import Any, Final

from pyinfra import logger

from sparkwright import interrupts, journal, report
from sparkwright.facts import ask
from sparkwright.job_watch import POLL_S, SAY_EVERY_S
from sparkwright.jobs import describe
from sparkwright.resources import Spec
from sparkwright.site import Planned

# What the processes of a unit have read, each; they come and go meanwhile.
_READ: Final = (
    "for pid in $(cat /sys/fs/cgroup/system.slice/$0/cgroup.procs); do cat /proc/$pid/io; done"
)


def watch_start(state: Any, host: Any, name: str, item: Planned) -> bool:
    """Follow a start until the unit serves (its health gate has passed) or fails."""
    try:
        return _follow(host, name, item)
    except ConnectionError:
        report.record("problem", host, f"{name}: the connection was lost while it started")
        logger.error(f"{host.print_prefix}{name}: the connection was lost; run again")
        return False


def _follow(host: Any, name: str, item: Planned) -> bool:
    began = said = time.monotonic()
    while True:
        unit, read = ask(host, [{"kind": "unit", "name": name}, read_probe(name)])
        now, waited = unit.get("ActiveState"), time.monotonic() - began
        # With a job systemd is not through: the old process may still run, or be gone already.
        ended = not unit.get("Job")
        if ended and now == "active":
            report.record("started", host, name)
            logger.info(f"{host.print_prefix}{name}: serves after {waited:.0f} s")
            return True
        under_way = now in ("activating", "deactivating", "reloading")
        if ended and (not under_way or unit.get("SubState") == "auto-restart"):
            explain(host, name, f"is {now} ({unit.get('Result')})")
            return False
        if time.monotonic() - said >= SAY_EVERY_S:
            line = loading(item, read.get("out", ""), waited)
            logger.info(f"{host.print_prefix}{name}: {line}")
            said = time.monotonic()
        if interrupts.came():
            return False
        time.sleep(POLL_S)


def read_probe(name: str) -> Spec:
    """The question how much a unit's processes have read."""
    return {"kind": "run", "argv": ["sh", "-c", _READ, name]}


def loading(item: Planned, read: str, waited: float) -> str:
    """
    One line about a load: how far, how fast, how long still.

    + read: texts of /proc/<pid>/io; a load by mmap reads nothing, and a container's processes are
      not the unit's: then only time is known
    + waited: seconds since the start
    """
    files = item.weights.files if item.weights else ()
    size = sum(file.size for file in files if file.path in item.files)
    done = sum(map(int, re.findall(r"^rchar: (\d+)$", read, re.M)))
    said: dict[str, Any] = {"phase": f"loading for {waited:.0f} s of at most "
                            f"{item.recipe.load_timeout_s} s"}  # fmt: skip
    # Programs and libraries are read too, so a small model says nothing of use.
    if 0 < done <= size:
        rate = done / max(waited, 1.0)
        said |= {"done_bytes": done, "total_bytes": size, "rate_bps": rate,
                 "eta_s": (size - done) / rate}  # fmt: skip
    return describe(said)


def explain(host: Any, name: str, what: str) -> None:
    """Say what is wrong with a unit and show what its journal says about it."""
    argv = ["journalctl", "--no-pager", "-o", "cat", "-n", str(journal.LOOK_BACK), "-u", name]
    log = ask(host, [{"kind": "run", "argv": argv}])[0].get("out", "")
    report.record("problem", host, f"{name}: {what}")
    logger.error(
        f"{host.print_prefix}{name}: {what}; its journal:\n{journal.shown(log)}\n"
        f"see `journalctl -u {name}` on {host.name}"
    )
