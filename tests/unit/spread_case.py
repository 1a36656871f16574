"""Several machines on one: each a loopback address of its own, real servers and real jobs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.unit.hub_server import COMMIT, FakeHub
from tests.unit.weights_case import AGENT, FILES, LIB, REPO, UNWANTED, listing

PORT = 18473
KEY = "weights-0123456789ab"
WANTED = {path: data for path, data in FILES.items() if path not in UNWANTED}
TOKEN = "a-token-of-the-test"


def address(number: int) -> str:
    """A loopback address that no other process's tests have: they run beside one another."""
    high, low = divmod(os.getpid(), 250)
    return f"127.{1 + high % 250}.{low}.{number}"


class Machine:
    """One of them: its own directories, its server, its job."""

    def __init__(self, tmp: Path, number: int, hub: FakeHub) -> None:
        self.name = f"spark-{number}"
        self.address = address(number)
        self.top = tmp / self.name
        self.dir, self.run = self.top / "weights", self.top / "run"
        self.run.mkdir(parents=True)
        self.hub = hub
        self.go = self.top / "go"
        self.peers: list[Machine] = []
        self.server: subprocess.Popen[bytes] | None = None
        self.hopeless = False

    def announce(self, token: str = TOKEN) -> None:
        """What the laptop writes."""
        packs = [[[path, len(WANTED[path])]] for path in sorted(WANTED)]
        told = {"token": token, "dirs": [str(self.dir)], "packs": packs}
        (self.run / f"{KEY}.json").write_text(json.dumps(told))

    def serve(self) -> None:
        """Start its server and wait until it listens."""
        words = [sys.executable, str(LIB / "spread_serve.py"), str(self.run), str(PORT)]
        self.server = subprocess.Popen([*words, self.address])
        deadline = time.monotonic() + 20
        import socket

        while time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex((self.address, PORT)) == 0:
                    return
            time.sleep(0.05)
        raise AssertionError(self.name)

    def fill(self, *names: str) -> None:
        """Have these files, as after a finished job."""
        for name in names or WANTED:
            place = self.dir / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(WANTED[name])

    def spec(self) -> dict[str, Any]:
        peers = [[peer.name, [peer.address]] for peer in self.peers]
        spread = {
            "item": str(self.run / f"{KEY}.json"),
            "key": KEY,
            "peers": peers,
            "port": PORT,
            "go": str(self.go),
        }
        return {
            "dir": str(self.dir),
            "repo": REPO,
            "commit": COMMIT,
            "endpoint": self.hub.endpoint,
            "hub_python": sys.executable,
            "files": listing(WANTED),
            "progress": str(self.top / "progress.json"),
            "retry_wait_s": 0.1,
            "spread": spread,
        }

    def start(self) -> subprocess.Popen[str]:
        """Begin its job."""
        path = self.top / "spec.json"
        path.write_text(json.dumps(self.spec()))
        argv = [sys.executable, str(AGENT), "fetch", str(path)]
        return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def status(self) -> dict[str, Any]:
        argv = [sys.executable, str(AGENT), "status", str(self.top / "spec.json")]
        answer = subprocess.run(argv, capture_output=True, text=True, check=True)
        value: dict[str, Any] = json.loads(answer.stdout)
        return value

    def progress(self) -> dict[str, Any]:
        try:
            value: dict[str, Any] = json.loads((self.top / "progress.json").read_text())
        except (OSError, ValueError):
            return {}
        return value

    def kill(self) -> None:
        """Its server is gone at once."""
        if self.server:
            self.server.kill()
            self.server.wait()
            self.server = None


@contextmanager
def site(tmp: Path, count: int, hub: FakeHub) -> Iterator[list[Machine]]:
    """Machines that all know one another and serve."""
    machines = [Machine(tmp, number + 1, hub) for number in range(count)]
    try:
        for machine in machines:
            machine.peers = [other for other in machines if other is not machine]
            machine.announce()
            machine.serve()
        yield machines
    finally:
        for machine in machines:
            machine.kill()


def ended(job: subprocess.Popen[str], code: int = 0) -> str:
    """What a job printed."""
    out = job.communicate(timeout=90)[0]
    assert job.returncode == code, out
    return out
