"""Who holds a machine's lock: this laptop's converge, or whose; and whether that one is dead."""

from __future__ import annotations

import getpass
import hashlib
import json
import os
import secrets
import socket
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sparkwright.paths import RUN
from sparkwright.resources import Spec

LOCK = f"{RUN}/lock"
# A live converge renews its lock this often, and one that was silent for so long is taken over: a
# laptop that sleeps or lost its network. Five missed beats (our choice).
RENEW_S, STALE_S = 60, 300
Record = Mapping[str, Any]


def holder() -> dict[str, Any]:
    """This converge, as others see it on a machine: who, where, and which process since when."""
    return {
        "run": secrets.token_hex(8),
        "user": getpass.getuser(),
        "host": socket.gethostname(),
        "laptop": _laptop(),
        "boot": _boot(),
        "space": _space(),
        "pid": os.getpid(),
        "began": _began(os.getpid()),
        "since": datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC"),
    }


def probe() -> Spec:
    """The question who holds a machine's lock."""
    return {"kind": "path", "path": LOCK, "text": True}


def parse(text: str) -> dict[str, Any] | None:
    """The record in a lock's text; None for what is no record."""
    try:
        found = json.loads(text or "null")
    except ValueError:
        return None
    return found if isinstance(found, dict) and found.get("run") else None


def dead(record: Record, me: Record) -> bool:
    """Whether a lock is left over from a converge of this user on this laptop that has ended.

    A pid says something only where it was seen: in the same boot and the same pid namespace (two
    containers may share the boot). After a reboot of this very laptop nothing of it can be alive.
    """
    if any(record.get(key) != me[key] for key in ("user", "host")):
        return False
    if record.get("boot") != me["boot"]:
        return bool(me["laptop"] and record.get("boot") and record.get("laptop") == me["laptop"])
    if not me["boot"] or record.get("space") != me["space"]:
        return False
    return _began(int(record.get("pid") or 0)) != record.get("began")


def at_work(lock: str, clock: float) -> str:
    """Who changes a machine now, for people; empty when nobody does.

    + lock: the lock's text, empty where there is none
    + clock: the machine's time, seconds since the epoch
    """
    record = parse(lock)
    if record is None or clock - float(record.get("renewed") or 0) > STALE_S:
        return ""
    return "" if dead(record, holder()) else text(record)


def text(record: Record) -> str:
    """The problem and what to do, for people."""
    user, host, since, pid = (record.get(key, "?") for key in ("user", "host", "since", "pid"))
    return (
        f"locked by {user}@{host} since {since}, whose converge (process {pid}) is not over; wait "
        f"for it and run again: a lock that was not renewed for {STALE_S // 60} minutes is taken "
        "over"
    )


def _began(pid: int) -> str:
    """When a process was started, in a form to compare; empty when there is none (any more)."""
    stat = Path(f"/proc/{pid}/stat")
    if Path("/proc/self/stat").exists():
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except (OSError, IndexError):
            return ""
        return "" if fields[0] in "ZX" else fields[19]  # proc(5): state, and start in clock ticks
    return _said("ps", "-o", "lstart=", "-p", str(pid))


def _boot() -> str:
    path = Path("/proc/sys/kernel/random/boot_id")
    return path.read_text().strip() if path.exists() else _said("sysctl", "-n", "kern.boottime")


def _space() -> str:
    path = Path("/proc/self/ns/pid")
    return os.readlink(path) if path.exists() else ""  # noqa: PTH115 - no path, but "pid:[…]"


def _laptop() -> str:
    """A name for this installation; machine-id(5) says that the id itself is not to be shown."""
    path = Path("/etc/machine-id")
    found = path.read_text().strip() if path.exists() else ""
    return hashlib.sha256(f"sparkwright {found}".encode()).hexdigest()[:16] if found else ""


def _said(*argv: str) -> str:
    """What a program of the system prints; empty when it fails or is not there."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False)  # noqa: S603 - words of ours
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
