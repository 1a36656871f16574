"""Two lab machines joined by a fabric that serve one model with a real vLLM."""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.e2e import support
from tests.fleet.pair import Pair
from tests.lab.host import cache_dir, locked, made_beside
from tests.lab.lab import Lab
from tests.vllm import checkpoint, wheels
from tests.vllm.site import UV, Site

HERE = Path(__file__).parent
# PyPI's newest of 2026-11-30, and the one wheel that it needs and vLLM does not.
RAY = ("ray==2.60.0", "msgpack==1.2.4")
# Silence until a member counts as gone, 60 s until systemd starts a failed head again, and a load.
PATIENCE_S = 900
PAIRS = {
    "mp": Pair("tiny-pair-mp", 8006, "tiny-pair", PATIENCE_S),
    "ray": Pair("tiny-pair-ray", 8007, "tiny-pair", PATIENCE_S),
}


@dataclass(frozen=True)
class PairSite:
    """Both machines and the folder with what says what they shall serve."""

    lab: Lab
    folder: Path

    @property
    def fleet(self) -> Path:
        """sparks.yaml."""
        return self.folder / "sparks.yaml"

    def serve(self, pair: Pair) -> None:
        """Write a fleet whose cluster serves this recipe alone."""
        cluster = {
            "sparks": [machine.name for machine in self.lab.machines],
            "fabric": {"interfaces": ["fab0", "fab1"]},
            "serve": [pair.recipe],
        }
        more = {"vllm_profile": "lab-cpu", "packages_extra": ["ccache", "libnuma1"]}
        settings = support.settings(**more)
        self.lab.write_fleet(self.fleet, settings=settings, clusters={"pair-a": cluster})
        values = yaml.safe_load(self.fleet.read_text())
        values["recipes"].insert(0, str(HERE / "recipes"))
        self.fleet.write_text(yaml.safe_dump(values, sort_keys=False))
        Site(self.lab, self.folder).write_lock()


def prepare(lab: Lab, folder: Path) -> PairSite:
    """Put model and wheels where the machines get them."""
    checkpoint.write(lab.upstream.hub_dir / "sparkwright-lab" / "tiny-vllm")
    plugin = lab.home / "plugin"
    plugin.mkdir()
    plugin_wheel(plugin)
    found = [wheels.prepare(), prepare_ray(), plugin]
    wheels.offer([*found, wheels.prepare_uv(UV)], lab.upstream.wheels_dir)
    (folder / "vllm-lab-cpu.txt").write_text("".join(map(wheels.requirements, found)))
    shutil.copyfile(UV, folder / "uv.txt")
    return PairSite(lab, folder)


def prepare_ray() -> Path:
    """A folder with Ray's own wheels; downloads 75 MB once."""
    name = hashlib.sha256("\0".join(RAY).encode()).hexdigest()[:12]
    target = cache_dir() / "ray" / name
    with locked(cache_dir() / "ray.lock"):
        if not target.exists():
            target.parent.mkdir(exist_ok=True)
            with made_beside(target) as folder:
                wheels.download(*RAY, into=folder)
    return target


def plugin_wheel(folder: Path) -> Path:
    """The wheel with vLLM's CPU platform as Ray may place it (platform/)."""
    entry = "[vllm.platform_plugins]\nsparkwright_lab = sparkwright_lab_plugin:register\n"
    code = sorted((HERE / "platform").glob("*.py"))
    return wheels.pure_wheel(
        folder, "sparkwright_lab_platform", "1", {"entry_points.txt": entry}, code
    )
