"""Which vLLM environments a machine's recipes need, and what is said when the lock lacks parts."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
import yaml

from sparkwright.errors import SparkwrightError
from sparkwright.vllm_needs import artifact_names, environments, profile_names
from tasks.preflight import artifact_problems
from tests.unit.machine_case import HASH, data

LINE = f"vllm==0.33.0 --hash=sha256:{HASH}\n"
WHEEL = {"kind": "wheel", "version": "0.7.2", "url": "https://h/x.whl", "size": 5, "sha256": HASH}


class Site:
    """Recipes and a lock."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "recipes").mkdir()
        (folder / "vllm-x.txt").write_text(f"# a comment\n{LINE}")
        self.artifacts: dict[str, Any] = {
            "uv": self.wheels(version="0.13.9"),
            "vllm-eugr": {"kind": "wheels", "requirements": "vllm-x.txt"},
            "vllm-lab-cpu": self.wheels(checks={"cuda": None, "python": "3.11", "equal": []}),
            "vllm-stock": self.wheels(),
            "stock-flashinfer-cubin": {**WHEEL, "project": "flashinfer-cubin"},
            "stock-flashinfer-jit-cache": {**WHEEL, "project": "flashinfer-jit-cache"},
        }

    def wheels(self, **more: Any) -> dict[str, Any]:
        sha256 = hashlib.sha256((self.folder / "vllm-x.txt").read_bytes()).hexdigest()
        return {"kind": "wheels", "requirements": "vllm-x.txt", "sha256": sha256, **more}

    def serve(self, **profiles: str | None) -> dict[str, Any]:
        """The data of a machine that serves a vLLM recipe for each name."""
        for name, profile in profiles.items():
            recipe = {
                "engine": "vllm",
                "description": "a tiny model",
                "port": 8001,
                "memory_gib": 50,
                "context": 4096,
                "weights": {"repo": "lab/a", "revision": "main", "license": "mit"},
                "flags": {"gpu-memory-utilization": 0.3},
                "acceptance": {"question": "2+2?", "expect": "4"},
                **({"profile": profile} if profile else {}),
            }
            (self.folder / f"recipes/{name}.yaml").write_text(yaml.safe_dump(recipe))
        lock = {"format": 1, "hub": "http://h", "artifacts": self.artifacts, "snapshots": {}}
        path = self.folder / f"lock-{len(list(self.folder.iterdir()))}.yaml"
        path.write_text(yaml.safe_dump(lock))
        served = [{"recipe": name} for name in profiles]
        return data(recipe_dirs=[str(self.folder / "recipes")], lock_file=str(path), serve=served)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_a_machine_without_vllm_gets_nothing(site: Site) -> None:
    nothing = site.serve()
    assert (profile_names(nothing), artifact_names(nothing), environments(nothing)) == ([], [], [])


def test_a_recipe_of_the_cluster_needs_its_environment_on_every_member(site: Site) -> None:
    """Listed under clusters, and so in no member's own `serve`."""
    asked = site.serve(a="stock", b="lab-cpu")
    shared = {"name": "pair", "rank": 1, "members": [{"name": n, "fabric": [a]} for n, a in
              (("s1", "10.9.0.10"), ("s2", "10.9.0.11"))], "serve": [{"recipe": "b"}]}  # fmt: skip
    member = {**asked, "serve": [{"recipe": "a"}], "cluster": shared}
    assert profile_names(member) == ["lab-cpu", "stock"]
    assert profile_names({**member, "serve": []}) == ["lab-cpu"]
    assert [item.profile.name for item in environments(member)] == ["lab-cpu", "stock"]


def test_one_environment_for_each_profile_that_is_named(site: Site) -> None:
    asked = site.serve(a="stock", b="lab-cpu", c="stock")
    one, two = environments(asked)
    assert (one.profile.name, two.profile.name) == ("lab-cpu", "stock")
    assert (one.profile.python, one.profile.checks.cuda) == ("3.11", None)
    assert (one.requirements, one.uv, one.arch, one.keep) == (LINE, "0.13.9", "aarch64", 2)
    assert two.requirements.splitlines()[1:] == [
        f"flashinfer-cubin @ https://h/x.whl --hash=sha256:{HASH}",
        f"flashinfer-jit-cache @ https://h/x.whl --hash=sha256:{HASH}",
    ]


def test_a_recipe_without_a_profile_takes_the_machines(site: Site) -> None:
    asked = site.serve(a=None)
    assert profile_names(asked) == ["eugr"]
    assert profile_names({**asked, "vllm_profile": "stock"}) == ["stock"]


def test_preflight_names_every_artifact_that_is_not_known(site: Site) -> None:
    for key in ("url", "size", "sha256"):
        del site.artifacts["stock-flashinfer-cubin"][key]
    del site.artifacts["stock-flashinfer-jit-cache"]
    asked = site.serve(a="stock", b="eugr")
    text = "\n".join(artifact_problems(asked))
    assert "artifacts/vllm-eugr: sha256 not known yet; run: sparkwright lock" in text
    assert "artifacts/eugr-flashinfer-cubin: is not in the lock" in text
    assert "artifacts/stock-flashinfer-cubin: url and size and sha256 not known yet; run: " in text
    assert "artifacts/stock-flashinfer-jit-cache: is not in the lock" in text
    with pytest.raises(SparkwrightError, match="vllm-eugr: sha256 not known yet"):
        environments(asked)


def test_an_unknown_profile_is_named(site: Site) -> None:
    asked = site.serve(a="stokc")
    (line,) = [text for text in artifact_problems(asked) if "artifacts/vllm-" in text]
    assert line.endswith("artifacts/vllm-stokc: is not in the lock; did you mean vllm-stock?")
