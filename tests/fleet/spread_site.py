"""Four machines that share: noise as weights, and what the hub and the machines say of a run."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.e2e import support
from tests.lab import fleetfile
from tests.lab.lab import Lab
from tests.lab.machine import Machine

SHARD_SIZE = 3_000_000
SHARDS = tuple(f"noise-{number:05d}-of-00004.gguf" for number in (1, 2, 3, 4))
WEIGHTS = "/srv/sparkwright/weights/sparkwright-lab"
BUILD = "/opt/sparkwright/llama.cpp/current"
# A cmake flag that changes nothing but the digest: a machine of another kind.
ODD = [*fleetfile.SETTINGS["llama_cpp_cmake_flags"], "-DGGML_ODD=1"]  # type: ignore[misc]  # a list


class Site:
    """A lab whose machines hold noise on standby."""

    def __init__(self, lab: Lab, folder: Path, odd: str = "") -> None:
        self.lab, self.folder, self.odd = lab, folder, odd
        self.count = 0

    def repository(self) -> str:
        """A new repository: four shards of noise."""
        self.count += 1
        name = f"noise-{self.count}"
        place = self.lab.upstream.hub_dir / "sparkwright-lab" / name
        place.mkdir(parents=True)
        (place / "README.md").write_text("---\nlicense: mit\n---\nNoise for tests, no model.\n")
        for path in SHARDS:
            (place / path).write_bytes(random.Random(f"{name}/{path}").randbytes(SHARD_SIZE))
        return name

    def fleet(self, name: str, settings: Mapping[str, object] | None = None) -> Path:
        """All machines hold the repository, on standby: noise cannot be loaded."""
        place = self.folder / name
        (place / "recipes").mkdir(parents=True, exist_ok=True)
        recipe = yaml.safe_load((fleetfile.RECIPES / "tiny-llama-llamacpp.yaml").read_text())
        recipe["flags"]["flash-attn"] = "on"  # PyYAML reads a bare one as true
        recipe["weights"] |= {"repo": f"sparkwright-lab/{name}", "license": "mit"}
        recipe["port"] = 9100
        (place / "recipes" / f"{name}.yaml").write_text(yaml.safe_dump(recipe))
        own = {self.odd: {"llama_cpp_cmake_flags": ODD}} if self.odd else {}
        serve = {m.name: [{"recipe": name, "state": "standby"}] for m in self.lab.machines}
        path = self.lab.write_fleet(
            place / "sparks.yaml", serve, {"spread": True, **(settings or {})}, own
        )
        fleet = yaml.safe_load(path.read_text())
        fleet["recipes"] = [str(place / "recipes"), *fleet["recipes"]]
        path.write_text(yaml.safe_dump(fleet, sort_keys=False))
        return path

    def serially(self, fleet: Path) -> None:
        """One machine after the other."""
        done = support.pyinfra(fleet, "--serial")
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]

    @contextmanager
    def asked(self, name: str) -> Iterator[list[str]]:
        """Files of the repository that the hub was asked for in the block, in order."""
        access = self.lab.upstream.access
        seen, found = len(access()), list[str]()
        yield found
        for row in access()[seen:]:
            path = str(row["path"])
            if row["method"] == "GET" and f"/{name}/resolve/" in path:
                found.append(path.split("/resolve/")[1].split("/", 1)[1])

    def held(self, machine: Machine, name: str) -> list[str]:
        """Finished shards of the repository on a machine, regular files of the right size."""
        find = f"cd {WEIGHTS}/{name}/*/ && find . -name '*.gguf' -type f -size {SHARD_SIZE}c "
        return machine.ssh(f"{find} -printf '%P\\n' | sort", check=False).stdout.split()

    def good(self, name: str, *machines: Machine) -> None:
        """These machines have every shard, and sha256sum agrees with the list beside them."""
        for machine in machines or self.lab.machines:
            assert self.held(machine, name) == list(SHARDS), machine.name
            machine.ssh(f"cd {WEIGHTS}/{name}/*/ && sha256sum --check --quiet SHA256SUMS")

    def compiled(self) -> list[str]:
        """Machines whose journal shows a configured build."""
        words = "sudo journalctl -o cat --no-pager | grep -c '^+ cmake -S'"
        return [m.name for m in self.lab.machines
                if int(m.ssh(words, check=False).stdout.strip() or 0)]  # fmt: skip


def notes(summary: Mapping[str, Any]) -> str:
    """What a run said, as text."""
    return re.sub(r"\x1b\[[0-9;]*m", "", str(summary))


def wait_for(condition: Callable[[], bool], what: str) -> None:
    """Until something is so; a fresh converge may come before it."""
    deadline = time.monotonic() + 600
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.2)
