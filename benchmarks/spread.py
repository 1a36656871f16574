"""1 GiB of weights to eight machines, beside what one would do otherwise.

The baseline is arithmetic: one copy over the uplink and ceil(log2 8) copies over the fabric. It
holds no time for starting, hashing or writing. All eight machines and the laptop share this
computer's cores.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import yaml

from benchmarks.links import FABRIC_BPS, UPLINK_BPS, shape
from benchmarks.measure import Figure, timed
from sparkwright.push_ssh import ssh_words
from sparkwright.resources import quote
from tests.lab import fleetfile
from tests.lab.lab import Lab

MACHINES, FILES, FILE_BYTES = 8, 32, 32 << 20
# Seconds: a machine ends an account's systemd 10 s after its last session (logind.conf(5),
# UserStopDelaySec=), and the sessions of the preparation ended just now on all eight.
SETTLE_S = 15
PYINFRA = str(Path(sys.executable).with_name("pyinfra"))
ANSIBLE = str(Path(sys.executable).with_name("ansible"))
PLACE = "/srv/other"


def bound() -> float:
    """Seconds that nothing on these links can do better with whole copies, one after another."""
    bits = 8 * FILES * FILE_BYTES
    return bits / UPLINK_BPS + math.ceil(math.log2(MACHINES)) * bits / FABRIC_BPS


def repository(lab: Lab, name: str, files: int, size: int) -> Path:
    """A repository of random files on the lab's hub."""
    place = lab.upstream.hub_dir / "sparkwright-lab" / name
    place.mkdir(parents=True)
    (place / "README.md").write_text("---\nlicense: mit\n---\nNoise, no model.\n")
    for number in range(files):
        shard = place / f"noise-{number + 1:05d}-of-{files:05d}.gguf"
        shard.write_bytes(os.urandom(size))
    return place


def fleet(lab: Lab, folder: Path, name: str, settings: Mapping[str, object] | None = None) -> Path:
    """A fleet whose machines hold a repository on standby."""
    recipes = folder / name / "recipes"
    recipes.mkdir(parents=True)
    recipe = yaml.safe_load((fleetfile.RECIPES / "tiny-llama-llamacpp.yaml").read_text())
    recipe["flags"]["flash-attn"] = "on"  # PyYAML reads a bare one as true
    recipe["weights"] |= {"repo": f"sparkwright-lab/{name}", "license": "mit"}
    (recipes / f"{name}.yaml").write_text(yaml.safe_dump(recipe))
    serve = {m.name: [{"recipe": name, "state": "standby"}] for m in lab.machines}
    path = lab.write_fleet(
        folder / name / "sparks.yaml", serve, {"spread": True, **(settings or {})}
    )
    data = yaml.safe_load(path.read_text())
    data["recipes"] = [str(recipes), *data["recipes"]]
    path.write_text(yaml.safe_dump(data, sort_keys=False))
    return path


def pyinfra(fleet: Path, deploy: str, *words: str) -> float:
    """Seconds of one deploy of this folder, start and connections included."""
    env = {"SPARKS_FILE": str(fleet), "PYINFRA_PROGRESS": "off", "PYTHONPATH": "."}
    argv = [PYINFRA, "inventory.py", f"benchmarks/deploys/{deploy}.py", "-y", *words]
    return timed(argv, env).seconds


class Others:
    """The same files from the laptop, by what one would use now."""

    def __init__(self, lab: Lab, fleet: Path, source: Path, folder: Path) -> None:
        self.lab, self.fleet, self.source, self.folder = lab, fleet, source, folder

    def clean(self) -> None:
        """An empty directory of the user's on each machine."""
        for machine in self.lab.machines:
            machine.ssh(f"sudo rm -rf {PLACE}; sudo install -d -o spark {PLACE}; sync")

    def put(self) -> float:
        """pyinfra's files.put, all machines at once."""
        return pyinfra(self.fleet, "files_put", "--data", f"put_from={self.source}")

    def copy(self) -> float:
        """Ansible's copy of the directory, all machines at once."""
        keys, hosts = self.lab.keys, self.folder / "hosts"
        hosts.write_text("".join(
            f"{m.name} ansible_host={m.address} ansible_user=spark "
            f"ansible_ssh_private_key_file={keys.user}\n" for m in self.lab.machines
        ))  # fmt: skip
        empty = self.folder / "ansible.cfg"
        empty.touch()
        known = f"-o UserKnownHostsFile={keys.known_hosts} -o StrictHostKeyChecking=yes"
        env = {"ANSIBLE_CONFIG": str(empty), "ANSIBLE_SSH_ARGS": f"-F none {known}",
               "ANSIBLE_PIPELINING": "True"}  # fmt: skip
        words = ["-i", str(hosts), "all", "-f", str(MACHINES), "-m", "copy"]
        return timed([ANSIBLE, *words, "-a", f"src={self.source}/ dest={PLACE}/"], env).seconds

    def rsync(self) -> float:
        """One rsync a machine, all at once, with the fast cipher."""
        began = time.monotonic()
        with ThreadPoolExecutor(MACHINES) as pool:
            list(pool.map(self._rsync, self.lab.machines))
        return time.monotonic() - began

    def _rsync(self, machine: object) -> None:
        address = machine.address  # type: ignore[attr-defined]  # a lab machine
        data = {"ssh_hostname": address, "ssh_user": "spark", "ssh_key": str(self.lab.keys.user),
                "ssh_known_hosts_file": str(self.lab.keys.known_hosts)}  # fmt: skip
        ssh = ssh_words(data)
        words = ["rsync", "-a", "--whole-file", "-e", quote(*ssh[:-1]), f"{self.source}/"]
        subprocess.run([*words, f"{address}:{PLACE}/"], check=True)


def figures(lab: Lab, folder: Path, say: Callable[[str], None]) -> list[Figure]:
    """All four, on a lab of eight machines with nothing on them."""
    source = repository(lab, "large", FILES, FILE_BYTES)
    repository(lab, "small", 1, 1 << 20)
    pyinfra(fleet(lab, folder, "small"), "prepare")
    large = fleet(lab, folder, "large")
    shape(lab)
    os.sync()
    time.sleep(SETTLE_S)
    ours = pyinfra(large, "weights")
    say(f"spread {ours:.1f} s, bound {bound():.1f} s")
    found = [Figure("spread_8", ours, "s", bound())]
    others = Others(lab, large, source, folder)
    for name, work in (("rsync", others.rsync), ("ansible_copy", others.copy),
                       ("files_put", others.put)):  # fmt: skip
        others.clean()
        seconds = work()
        say(f"{name} {seconds:.1f} s, {seconds / ours:.1f} times as long")
        found.append(Figure(f"spread_8_{name}", seconds, "s", bound()))
    return found
