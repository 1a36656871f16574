"""What the parts of one model know of their own unit; shared by pair_link.py and its halves."""

from __future__ import annotations

import contextlib
import json
import subprocess
from pathlib import Path
from typing import Any

RUN = Path("/run/sparkwright")
# Seconds: how often the members look, and after how long a silent one counts as gone. A stopped
# worker is told within one look; silence is a cut cable or a machine without power.
LOOK_S = 2.0
LOST_S = 15.0
ASK_S = 5.0
PAIR, DIGEST = "SPARKWRIGHT_PAIR", "SPARKWRIGHT_DIGEST"
Reply = dict[str, Any]


def say(line: str) -> None:
    """One fact a line, for the journal."""
    print(f"pair: {line}", flush=True)


def show(unit: str) -> Reply:
    """What systemd says of a unit, with the pair's digest of its process and of its file."""
    keys = "ActiveState,SubState,Result,InvocationID,MainPID,FragmentPath"
    words = ["systemctl", "show", "-p", keys, unit]
    out = subprocess.run(words, capture_output=True, text=True, check=True, timeout=30).stdout
    found = dict(line.split("=", 1) for line in out.splitlines() if "=" in line)
    state = {"unit": unit, "active": found["ActiveState"], "sub": found["SubState"]}
    state |= {"result": found["Result"], "invocation": found["InvocationID"]}
    runs, wanted = _environ(found["MainPID"]), _written(found.get("FragmentPath", ""))
    stale = bool(runs) and runs != wanted
    stale = stale or mark(unit).exists() or _replaced(found["MainPID"])
    return {**state, "pair": runs.get(PAIR, ""), "file": wanted.get(PAIR, ""), "stale": stale}


def mark(unit: str) -> Path:
    """The file by which a converge says that a restart is owed (serving_seen.py)."""
    return RUN / f"owed-{unit}"


def _replaced(pid: str) -> bool:
    """Was the program of a process written anew since it began?"""
    with contextlib.suppress(OSError):
        return str(Path(f"/proc/{pid}/exe").readlink()).endswith(" (deleted)")
    return False


def _environ(pid: str) -> dict[str, str]:
    """Our variables of a process; none when it does not run."""
    with contextlib.suppress(OSError):
        entries = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")
        return dict(entry.split("=", 1) for entry in entries if entry.startswith((PAIR, DIGEST)))
    return {}


def _written(path: str) -> dict[str, str]:
    """Our variables in a unit's file."""
    with contextlib.suppress(OSError):
        lines = Path(path).read_text().splitlines() if path else []
        words = [line.removeprefix("Environment=").strip('"') for line in lines]
        return dict(word.split("=", 1) for word in words if word.startswith((PAIR, DIGEST)))
    return {}


def order(*words: str) -> str:
    """Run systemctl; what it complained of, or nothing."""
    done = subprocess.run(["systemctl", *words], capture_output=True, text=True, check=False)
    return done.stderr.strip() if done.returncode else ""


class Kept:
    """A small record in /run: a reboot forgets it, and ends the processes that it is about."""

    def __init__(self, unit: str, what: str) -> None:
        self.path = RUN / f"pair-{unit}.{what}.json"

    def read(self) -> Reply:
        try:
            found: Reply = json.loads(self.path.read_text())
        except (OSError, ValueError):
            return {}
        return found

    def write(self, value: Reply) -> None:
        RUN.mkdir(mode=0o755, exist_ok=True)
        beside = self.path.with_suffix(".new")
        beside.write_text(json.dumps(value))
        beside.rename(self.path)
