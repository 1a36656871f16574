"""The lab for an air gap: a lock with packages, a real bundle, and machines with no way out."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.airgap.outside import Cable
from tests.e2e import support
from tests.lab import network
from tests.lab.host import run, say
from tests.lab.lab import Lab
from tests.lab.machine import Machine
from tests.lab.records import read_pidfile

MIRROR_PORT = 8099
RECIPES = {"spark-1": ["tiny-gpt-oss-llamacpp"], "spark-2": ["tiny-llama-llamacpp"]}
PORTS = {"spark-1": (8080, "tiny-gpt-oss"), "spark-2": (8081, "tiny-llama")}


class Site:
    """A connected lab that makes its bundle, and is then cut off.

    + folder: holds sparks.yaml, its lock, and bundle/
    + serve: machine name -> recipes; fleet: a fleet file that is there already instead
    """

    def __init__(
        self, lab: Lab, folder: Path, serve: dict[str, Any] | None = None, fleet: Path | None = None
    ) -> None:
        self.lab, self.folder = lab, folder
        self.bundle = folder / "bundle"
        self.fleet = fleet or lab.write_fleet(
            folder / "sparks.yaml", serve or RECIPES, support.settings()
        )
        self.env = {
            "UV_DEFAULT_INDEX": f"{lab.upstream.url}/simple",
            "UV_NO_CONFIG": "1",
            "HF_ENDPOINT": lab.upstream.url,
        }

    def command(self, *words: str) -> str:
        """Our console script, which must succeed."""
        done = support.sparkwright(self.fleet, *words, env=self.env)
        assert done.returncode == 0, f"{words}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout

    def fill(self) -> None:
        """Lock the packages, fill the bundle, prove it: all as a user does."""
        self.command("lock", "--fleet", str(self.fleet), "--debs", "spark-1")
        say("lock --debs: done")
        self.command("bundle", str(self.bundle), "--fleet", str(self.fleet))
        say(f"bundle: {sum(f.stat().st_size for f in self.bundle.rglob('*') if f.is_file())} bytes")
        print(self.command("bundle", "verify", str(self.bundle), "--fleet", str(self.fleet)))

    def environment(self, fleet: Path) -> dict[str, str]:
        """For a program of ours that runs beside."""
        return {**os.environ, "SPARKS_FILE": str(fleet)}

    def say_from(self, name: str, **artifacts: str | bool) -> Path:
        """A fleet file like ours but for where things come from."""
        data = yaml.safe_load(self.fleet.read_text())
        data["artifacts"] = {"lock": data["artifacts"]["lock"], "from": name, **artifacts}
        path = self.folder / f"{name}.yaml"
        path.write_text(yaml.safe_dump(data, sort_keys=False))
        return path

    def cut_off(self) -> None:
        """Upstream ends; machines keep its address in every setting and find nobody there."""
        process = read_pidfile(self.lab.upstream.home / "server.pid")
        assert process
        process.end(signal.SIGTERM, wait=20)
        for machine in self.lab.machines:
            quiet(machine)
        say("upstream is gone")

    def cable(self, machine: Machine, *ports: int) -> Cable:
        """Count what a machine sends."""
        link = network.names(machine.setting.record, machine.index)[1]
        return Cable(link, machine.address, self.lab.upstream.address, ports)


def converge(
    site: Site, machine: Machine, fleet: Path, answers: Mapping[int, str], *ports: int
) -> tuple[int, int]:
    """(changes of a second run, packets outside) of two converges that must succeed.

    + answers: port -> model, each of which must say SPARK; ports: of the laptop's mirror
    """
    assert no_route(machine) == "", "the machine has a way out"
    cable = site.cable(machine, *ports)
    try:
        support.converge(fleet, "--limit", machine.name)
        again = support.converge(fleet, "--limit", machine.name)
    finally:
        cable.stop()
    kinds = sorted(set(cable.outside))
    said = {model: support.ask(machine, port, model).strip() for port, model in answers.items()}
    print(f"{machine.name}: {said}; second run changed {again['changed']} "
          f"{again['changes'] or ''}; {cable.inside} packets to the laptop, "
          f"{len(cable.outside)} to others {kinds or ''}", flush=True)  # fmt: skip
    assert set(said.values()) == {"SPARK"}
    assert cable.inside, "nothing was counted at all"
    return int(again["changed"]), len(cable.outside)


def heading(text: str) -> None:
    """A heading between the programs' own output."""
    print(f"\n=== {text}", flush=True)


def quiet(machine: Machine) -> None:
    """No IPv6: the kernel's own housekeeping there would count as traffic."""
    space = network.names(machine.setting.record, machine.index)[0]
    run("ip", "netns", "exec", space, "sysctl", "-q", "-w", "net.ipv6.conf.all.disable_ipv6=1")


def no_route(machine: Machine) -> str:
    """The machine's default routes and name servers: nothing."""
    return machine.ssh("ip route show default; cat /etc/resolv.conf 2>/dev/null; true").stdout


@contextlib.contextmanager
def mirror(site: Site, folder: Path, port: int, *words: str) -> Iterator[str]:
    """A web server on the laptop's address that serves a directory as it is; gives its URL.

    + words: another server than Python's own
    """
    address = site.lab.upstream.address
    argv = [sys.executable, *(words or ("-m", "http.server")), str(port)]
    argv += ["--bind", address, "--directory", str(folder)]
    log = (site.folder / f"mirror-{port}.log").open("ab")
    server = subprocess.Popen(argv, stdout=log, stderr=log, cwd=support.PROJECT,
                              env={**os.environ, "PYTHONPATH": str(support.PROJECT)})  # fmt: skip
    try:
        time.sleep(0.8)
        assert server.poll() is None, "the mirror did not start"
        yield f"http://{address}:{port}"
    finally:
        server.terminate()
        server.wait()


@contextlib.contextmanager
def slow(machine: Machine, rate: str = "40mbit") -> Iterator[None]:
    """The machine's cable carries so much meanwhile; words of tc(8)."""
    link = network.names(machine.setting.record, machine.index)[1]
    shape = ("tbf", "rate", rate, "burst", "64kb", "latency", "400ms")
    run("tc", "qdisc", "add", "dev", link, "root", *shape)
    try:
        yield
    finally:
        run("tc", "qdisc", "del", "dev", link, "root")
