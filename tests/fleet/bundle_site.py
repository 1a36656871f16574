"""Three machines with no way out that need different parts of a bundle; what leaves the laptop."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from sparkwright.bundle_layout import Entry
from sparkwright.fleet import load_fleet
from sparkwright.fleet_pyinfra import to_pyinfra
from sparkwright.fleet_settings import settings_defaults
from sparkwright.paths import PROJECT
from sparkwright.push_plan import files_of
from tests.airgap.place import Site
from tests.e2e import support
from tests.lab import network
from tests.lab.host import run
from tests.lab.lab import Lab
from tests.lab.machine import Machine

PYINFRA = str(Path(support.PROGRAM).with_name("pyinfra"))
PLACE = "/srv/sparkwright/bundle"
INCOMING = f"{PLACE}/.sparkwright/incoming"
LLAMA, GPT = "tiny-llama-llamacpp", "tiny-gpt-oss-llamacpp"
SERVE: dict[str, object] = {"spark-1": [LLAMA], "spark-2": [LLAMA, GPT], "spark-3": [GPT]}
# What travels beside contents: SSH's and TCP's own bytes, our programs, questions and lists.
OWN_SHARE, OWN_BYTES = 0.06, 4_000_000


class Shared:
    """A filled bundle, machines that share it, and the cable of the laptop.

    + parts: machine -> path -> entry of everything that belongs there
    """

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab = lab
        self.site = Site(lab, folder, dict(SERVE))
        self.site.fill()
        self.site.cut_off()
        self.fleet = self._fleet("shared", spread=True)
        self.alone = self._fleet("alone", spread=False)
        self.parts = {name: self._part(name) for name in SERVE}
        self.machines = {machine.name: machine for machine in lab.machines}

    def _fleet(self, name: str, **settings: object) -> Path:
        path = self.site.say_from("bundle", path=str(self.site.bundle))
        data = yaml.safe_load(path.read_text())
        data["defaults"]["settings"].update(settings)
        path = path.with_name(f"{name}.yaml")
        path.write_text(yaml.safe_dump(data, sort_keys=False))
        return path

    def _part(self, name: str) -> dict[str, Entry]:
        defaults = settings_defaults(PROJECT / "group_data/all.py")
        groups = to_pyinfra(load_fleet(self.fleet, defaults))
        data = {**defaults, **dict(groups["sparks"])[name]}
        return {entry.path: entry for entry in files_of(data)}

    def size(self, *names: str) -> int:
        """Bytes of what these machines need together, each content once; all without names."""
        parts = [self.parts[name] for name in names or self.parts]
        return sum({e.sha256: e.size for part in parts for e in part.values()}.values())

    def forget(self) -> None:
        """No machine has anything of the bundle, and none of ours runs."""
        for machine in self.lab.machines:
            machine.ssh("sudo systemctl --quiet stop 'sparkwright-bundle-*'; "
                        f"sudo rm -rf {PLACE} /run/sparkwright/bundle*")  # fmt: skip

    def start(self, *words: str, fleet: Path | None = None) -> subprocess.Popen[str]:
        """Begin a push to all of them."""
        env = {**os.environ, "SPARKS_FILE": str(fleet or self.fleet)}
        env |= {"PYTHONPATH": str(PROJECT), "PYINFRA_PROGRESS": "off"}
        argv = [PYINFRA, "inventory.py", "tests/e2e/push_deploy.py", "-y", *words]
        return subprocess.Popen(argv, cwd=PROJECT, env=env, text=True, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip

    def push(self, *words: str, fleet: Path | None = None) -> str:
        """A push that must succeed; what the user sees."""
        child = self.start(*words, fleet=fleet)
        said = plain(child.communicate()[0])
        assert child.returncode == 0, said[-5000:]
        return said

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[str]]:
        """A push that may be ended in the block."""
        child = self.start()
        try:
            yield child
        finally:
            if child.poll() is None:
                child.kill()
            child.wait()

    def left(self) -> int:
        """Bytes that have left the laptop's port of the switch, for whichever machine."""
        place = Path("/sys/class/net") / self.lab.record.bridge / "statistics/tx_bytes"
        return int(place.read_text())

    @contextmanager
    def uplink(self, rate: str) -> Iterator[None]:
        """The laptop's own cable carries so much meanwhile; that among the machines all it can."""
        shape = ("tbf", "rate", rate, "burst", "64kb", "latency", "400ms")
        run("tc", "qdisc", "add", "dev", self.lab.record.bridge, "root", *shape)
        try:
            yield
        finally:
            run("tc", "qdisc", "del", "dev", self.lab.record.bridge, "root")

    @contextmanager
    def apart(self) -> Iterator[None]:
        """The switch keeps machines from one another, as one with client isolation does."""
        cables = [network.names(self.lab.record, machine.index)[1] for machine in self.lab.machines]
        for cable in cables:
            run("bridge", "link", "set", "dev", cable, "isolated", "on")
        try:
            yield
        finally:
            for cable in cables:
                run("bridge", "link", "set", "dev", cable, "isolated", "off")

    def good(self, *names: str) -> None:
        """These machines have their part and nothing else, every byte of it."""
        for name in names or self.parts:
            find = f"cd {PLACE} && find . -path ./.sparkwright -prune -o -type f -print0"
            text = self.machines[name].ssh(f"{find} | xargs -0 sha256sum").stdout
            rows = [line.split(maxsplit=1) for line in text.splitlines()]
            found = {path.removeprefix("./"): sha256 for sha256, path in rows}
            assert found == {path: entry.sha256 for path, entry in self.parts[name].items()}, name

    def nothing_left(self, *names: str) -> None:
        """No server, no copy, no token, nothing half there."""
        look = (
            "systemctl list-units --all --plain --no-legend 'sparkwright-bundle-*'; "
            f"ls -d /run/sparkwright/bundle* 2>/dev/null; ls {INCOMING} | grep -v '^lock'; true"
        )
        for name in names or self.parts:
            assert self.machines[name].ssh(f"sudo sh -c {look!r}").stdout == "", name

    def arrived(self, machine: Machine) -> int:
        """Contents that are whole on a machine and have no name yet."""
        words = f"sudo ls {INCOMING} | grep -cE '^[0-9a-f]{{64}}$'"
        return int(machine.ssh(words, check=False).stdout.strip() or 0)

    def receivers(self) -> list[str]:
        """Machines that the laptop is sending to: the receiver's text begins so."""
        words = "pgrep -fc '[T]akes files that the laptop sends'"
        return [m.name for m in self.lab.machines
                if int(m.ssh(words, check=False).stdout.strip() or 0)]  # fmt: skip


def plain(text: str) -> str:
    """Without colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def megabytes(said: str, what: str) -> dict[str, float]:
    """Machine -> sum of the figures before some words, in lines such as `push: 3.4 MB sent`."""
    found: dict[str, float] = {}
    for name, figure in re.findall(rf"\[(spark-\d)\] push: ([\d.]+) MB {what}", said):
        found[name] = found.get(name, 0.0) + float(figure)
    return found


def sent(before: int, now: int, size: int) -> None:
    """The laptop sent so many bytes of contents, and little else."""
    assert now - before >= size, (now - before, size)
    assert now - before <= size * (1 + OWN_SHARE) + OWN_BYTES, (now - before, size)


def until(condition: Callable[[], bool], child: subprocess.Popen[str], what: str) -> None:
    """Until something is so, while a push runs."""
    deadline = time.monotonic() + 240
    while not condition():
        if child.poll() is not None:
            raise AssertionError(f"{what}: the push ended: {child.communicate()[0][-4000:]}")
        assert time.monotonic() < deadline, what
        time.sleep(0.2)
