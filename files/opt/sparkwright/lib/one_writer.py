"""Lets one converge at a time change this machine: takes, renews and releases its lock.

talk.py brings it as text, for the first converge finds nothing of ours here. The lock is a record
in /run, so a reboot ends it. Everything happens under a flock on its directory.

    {"do": "take", "holder": {"run": "5f…", …}, "stale_s": 300, "over": ""}
    {"do": "renew", "holder": …} or {"do": "release", "holder": …}

gives {"held": …, "by": the other's record or null, "over": the record that was replaced or null}.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from pathlib import Path
from typing import Any

RUN = "/run/sparkwright"
Record = dict[str, Any]


def clock() -> float:
    """Seconds since boot, sleep included: nobody can set this clock, and the lock ends with it."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def read(path: Path) -> Record | None:
    """The record, or None when there is none that anybody could read."""
    try:
        found = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def write(path: Path, holder: Record) -> None:
    """Write it whole or not at all; readers take no lock."""
    part = path.with_name(".lock.new")
    part.write_text(json.dumps({**holder, "renewed": time.time(), "beat": clock()}))
    part.chmod(0o644)  # who holds it is no secret, and a dry run without root may say so
    part.replace(path)


def free(have: Record, spec: Record) -> bool:
    """Whether somebody else's record may be replaced: it is silent, or known to be dead."""
    if spec["do"] != "take":
        return False
    silent = clock() - float(have.get("beat", 0)) > spec["stale_s"]
    return silent or (bool(spec.get("over")) and have.get("run") == spec["over"])


def act(spec: Record, path: Path) -> Record:
    """Do what is asked while nobody else does."""
    have, run = read(path), spec["holder"]["run"]
    mine = have is None or have.get("run") == run
    if spec["do"] == "release":
        if have and mine:
            path.unlink()
        return {"held": False, "by": None, "over": None}
    if have and not mine and not free(have, spec):
        return {"held": False, "by": have, "over": None}
    write(path, spec["holder"])
    return {"held": True, "by": None, "over": None if mine else have}


def answer(spec: Record) -> Record:
    """Do one thing and say what came of it. Raises OSError."""
    folder = Path(spec.get("folder", RUN))
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        return act(spec, folder / "lock")
    finally:
        os.close(held)
