"""Two lab machines with a cable of two halves between them, and what a converge of it does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparkwright.report import FINDINGS
from tests.e2e.support import PROJECT
from tests.lab.lab import Lab
from tests.lab.machine import Machine

PYINFRA = str(Path(sys.executable).with_name("pyinfra"))
NAMED = {"interfaces": ["fab0", "fab1"]}
CLUSTER = {"sparks": ["spark-1", "spark-2"], "fabric": NAMED}


@dataclass(frozen=True)
class Run:
    """What a run did: exit status, differences that it found and changed, problems, its log."""

    rc: int
    changed: list[str]
    problems: list[str]
    log: str


@dataclass
class Pair:
    """Two machines with a cable of two halves between them."""

    lab: Lab
    folder: Path
    count: int = 0

    @property
    def one(self) -> Machine:
        return self.lab.machines[0]

    @property
    def two(self) -> Machine:
        return self.lab.machines[1]

    def fleet(self, cluster: object = CLUSTER, **settings: Any) -> Path:
        self.count += 1
        place = self.folder / str(self.count)
        place.mkdir()
        clusters = {"pair": cluster} if cluster else None
        return self.lab.write_fleet(place / "sparks.yaml", settings=settings, clusters=clusters)

    def converge(self, fleet: Path | None = None) -> Run:
        fleet = fleet or self.fleet()
        notes = fleet.with_name("findings")
        notes.touch()
        done = subprocess.run(
            [PYINFRA, "inventory.py", "tests/fleet/fabric_deploy.py", "--json", "-y"],
            cwd=PROJECT, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False,
            env={**os.environ, "SPARKS_FILE": str(fleet), FINDINGS: str(notes)},
        )  # fmt: skip
        rows = [json.loads(line) for line in notes.read_text().splitlines()]
        kinds: dict[str, list[str]] = {"changed": [], "problem": []}
        for row in rows:
            line = f"{row['host']}: {row['what']}"
            if line not in kinds.setdefault(row["kind"], []):
                kinds[row["kind"]].append(line)
        log = done.stdout + done.stderr
        return Run(done.returncode, kinds["changed"], kinds["problem"], log)

    def well(self) -> None:
        """Converge and expect that it works, then that a second run has nothing to do."""
        first = self.converge()
        assert first.rc == 0, first.log
        second = self.converge()
        assert (second.rc, second.changed) == (0, []), second.log


def addresses(machine: Machine) -> dict[str, tuple[int, list[str]]]:
    """MTU and IPv4 addresses of the fabric's interfaces."""
    found = json.loads(machine.ssh("ip -json address").stdout)
    return {
        link["ifname"]: (
            link["mtu"],
            [a["local"] for a in link["addr_info"] if a["family"] == "inet"],
        )
        for link in found
        if link["ifname"].startswith("fab")
    }


def wanted(number: int) -> dict[str, tuple[int, list[str]]]:
    return {f"fab{half}": (9000, [f"192.168.{100 + half}.{number}"]) for half in range(2)}
