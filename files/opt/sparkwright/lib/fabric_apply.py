"""Puts the fabric's netplan file on trial, and takes it back unless the laptop gets in again.

    fabric_apply.py SPEC.json

Runs in a unit of its own, so it goes on when the SSH session that began it is cut. The file on
trial lies in /run/netplan, where it hides its namesake in /etc (netplan-generate(8)): a power cut
ends the trial as well. Confirmed, it moves to /etc. Otherwise it goes, netplan is applied again,
and the addresses, routes and MTU that the fabric's and SSH's interfaces had are put back by hand:
netplan applies every file, and it may be another one's waiting change that cut SSH.

Spec: {"token", "text", "file": path in /etc/netplan, "interfaces": [[name, address, mtu], ...],
"ssh": [name, ...], "settle_s", "confirm_s", "place": directory with state and confirm/,
"trial": /run/netplan}
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from fabric_links import Failed, attempt, links, put_back, remember, run, tidy


def write(path: Path, text: str, mode: int) -> None:
    """Write a file whole, beside its place first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".sparkwright.{path.name}")
    beside.unlink(missing_ok=True)
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    beside.chmod(mode)
    beside.replace(path)


def settle(wanted: Sequence[Sequence[Any]], settle_s: float) -> None:
    """Wait until the interfaces are as the file says. Raises Failed."""
    ends = time.monotonic() + settle_s
    while True:
        now = links()
        wrong = [
            f"{name} has {' '.join(now[name]['addresses']) or 'no address'} and MTU "
            f"{now[name]['mtu']}, not {address} and {mtu}"
            for name, address, mtu in wanted
            if address not in now[name]["addresses"] or now[name]["mtu"] != mtu
        ]
        if not wrong:
            return
        if time.monotonic() > ends:
            raise Failed(f"netplan was applied and {wrong[0]}; is its cable in?")
        time.sleep(0.2)


class Trial:
    """One change, from the file to its end.

    + spec: see the top
    """

    def __init__(self, spec: dict[str, Any]) -> None:
        self.spec = spec
        self.file = Path(spec["file"])
        self.trial = Path(spec["trial"]) / self.file.name
        self.place = Path(spec["place"])
        old = self.file.read_text() if self.file.exists() else ""
        self.names = {name for name, _, _ in spec["interfaces"]}
        self.dropped = set(re.findall(r"^    (\S+):$", old, re.M)) - self.names
        self.before = remember({*self.names, *self.dropped, *spec["ssh"]})

    def say(self, word: str, why: str = "") -> None:
        """Tell the laptop; any user may read it."""
        print(f"{word} {why}", flush=True)
        write(self.place / "state", f"{word} {self.spec['token']} {why}".strip() + "\n", 0o644)

    def run(self) -> bool:
        """Whether the file stays."""
        applied = False
        try:
            write(self.trial, self.spec["text"], 0o600)
            run("netplan", "generate")
            applied = True
            # Before as well: the kernel would take a new address away with an older one of its
            # network.
            tidy(self.spec["interfaces"], self.dropped)
            run("netplan", "apply")
            tidy(self.spec["interfaces"], self.dropped)
            settle(self.spec["interfaces"], self.spec["settle_s"])
            self.say("applied")
            self.wait()
        except Failed as error:
            self.back(str(error), applied)
            return False
        write(self.file, self.spec["text"], 0o600)
        self.trial.unlink()
        self.say("kept")
        return True

    def wait(self) -> None:
        """Wait for the laptop's word. Raises Failed."""
        ends = time.monotonic() + self.spec["confirm_s"]
        while not (self.place / "confirm" / self.spec["token"]).exists():
            if time.monotonic() > ends:
                seconds = self.spec["confirm_s"]
                raise Failed(f"nobody could log in anew within {seconds} s of netplan apply")
            time.sleep(0.2)

    def back(self, why: str, applied: bool) -> None:
        """Everything as it was; a stop waits for that."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self.trial.unlink(missing_ok=True)
        if applied:
            attempt("netplan", "apply")
            put_back(self.before)
        self.say("back", why)


def stopped(number: int, frame: FrameType | None) -> None:
    """SIGTERM ends the trial as a failure does."""
    raise Failed("it was stopped")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, stopped)
    sys.exit(0 if Trial(json.loads(Path(sys.argv[1]).read_text())).run() else 1)
