"""Eight converged machines, of which one was converged from nothing."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from sparkwright.paths import PROJECT
from tests.e2e import support
from tests.lab.lab import Lab

MACHINES = 8
TOGETHER = 8
RECIPE = "tiny-gpt-oss-llamacpp"
ONE_WAY_MS = 25  # 50 ms there and back


def settled(lab: Lab, folder: Path, machines: int = MACHINES) -> Path:
    """
    Converge one machine, multiply it, converge all; returns the fleet file.

    + machines: how many there are in the end

    The others' weights have new inodes and their services never answered, so a converge has real
    work to do on each of them.
    """
    return converged(multiplied(lab, folder, machines))


def converged(fleet: Path) -> Path:
    """Converge until there is nothing to do; raises RuntimeError when that is not at once."""
    support.converge(fleet)
    again = support.converge(fleet)
    if again["changed"]:
        raise RuntimeError(f"the second run changed something: {again['changes']}")
    return fleet


def multiplied(lab: Lab, folder: Path, count: int) -> Path:
    """
    Converge one machine and boot copies of it; returns the fleet file.

    The others start from a copy of the first one's disk below their own.

    + count: machines in the end
    """
    support.converge(lab.write_fleet(folder / "one.yaml", {"spark-1": [RECIPE]}))
    first = lab.machines[0]
    first.power_off()
    disk = lab.home / "converged"
    subprocess.run(["cp", "-a", str(first.home / "upper"), str(disk)], check=True)
    first.boot()
    below = Path(f"{disk}:{lab.setting.base}")  # two layers, as overlayfs writes them
    lab.setting = dataclasses.replace(lab.setting, base=below)
    return grown(lab, folder, count)


def grown(lab: Lab, folder: Path, count: int) -> Path:
    """Boot more copies until there are so many; returns the fleet file."""
    while len(lab.machines) < count:  # not all at once: two cores boot them
        lab.add_machines(min(TOGETHER, count - len(lab.machines)))
    serve = {machine.name: [RECIPE] for machine in lab.machines}
    return lab.write_fleet(folder / "sparks.yaml", serve)


@contextmanager
def distant(fleet: Path) -> Iterator[Path]:
    """A fleet file in which the first machine is 50 ms away."""
    data = yaml.safe_load(fleet.read_text())
    address = data["sparks"]["spark-1"]["address"]
    words = [sys.executable, "-m", "benchmarks.delay", address, "22", str(ONE_WAY_MS)]
    proxy = subprocess.Popen(words, cwd=PROJECT, stdout=subprocess.PIPE, text=True)
    try:
        assert proxy.stdout is not None  # noqa: S101 - Popen was given PIPE
        port = int(proxy.stdout.readline())
        known = Path(data["defaults"]["ssh"]["known_hosts"]).read_text().splitlines()
        key = next(line.split(" ", 1)[1] for line in known if line.startswith(f"{address} "))
        hosts = fleet.with_name("distant_known_hosts")
        hosts.write_text(f"[127.0.0.1]:{port} {key}\n")
        data["defaults"]["ssh"] |= {"port": port, "known_hosts": str(hosts)}
        spark = {**data["sparks"]["spark-1"], "address": "127.0.0.1"}
        other = fleet.with_name("distant.yaml")
        other.write_text(yaml.safe_dump({**data, "sparks": {"spark-1": spark}}))
        yield other
    finally:
        proxy.terminate()
        proxy.wait()
