"""The computed needs hold everything that a real converge asks for, and nothing else."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from urllib.parse import unquote

import pytest
import yaml

from sparkwright import site
from sparkwright.bundle_apt import packages_text
from sparkwright.errors import Problems
from sparkwright.fleet_settings import settings_defaults
from sparkwright.needs import Needs, needs_of
from sparkwright.needs_parts import base_packages
from sparkwright.paths import PROJECT
from sparkwright.system import Packages
from tasks import base, vllm
from tests.bundle.place import Place, sha256

RECORD = json.loads(Path(__file__).with_name("converge_asked.json").read_text())
# What tells where files are: a bundle has its own, or none is asked (from: bundle).
INDEX = r"/api/models/|/simple/|/apt/.*/(InRelease|Release|Packages)(\.gz)?$"
OURS = r"(apt/(Packages|Release|InRelease|key\.gpg)|simple/.*|artifacts\.lock\.yaml)$"


def name_of(path: str) -> str:
    """A file's name; of a deb without the epoch, which apt's own names carry."""
    name = unquote(unquote(path)).rsplit("/", 1)[1]
    return re.sub(r"_\d+:", "_", name)


def test_every_address_that_a_converge_asked_is_a_file_of_the_bundle() -> None:
    """converge_asked.json: a lab machine's real requests; record.py made it."""
    asked = {path for path in RECORD["asked"] if not re.match(INDEX, path)}
    assert len(asked) > 80
    names = {name_of(path) for path in RECORD["bundle"] if "/" in path}
    assert {path for path in asked if name_of(path) not in names} == set()


def test_the_bundle_holds_nothing_that_no_converge_asks_for() -> None:
    asked = {name_of(path) for path in RECORD["asked"] if not path.endswith("/")}
    files = {path for path in RECORD["bundle"] if not re.match(OURS, path)}
    assert {path for path in files if name_of(path) not in asked} == set()


def named_by_tasks() -> set[str]:
    """Artifacts that tasks name by text."""
    found = set()
    for path in (PROJECT / "tasks").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "artifact":
                found |= {a.value for a in node.args if isinstance(a, ast.Constant)}
    return {str(name) for name in found}


@pytest.fixture
def everything(place: Place) -> tuple[Needs, dict[str, object]]:
    """A machine with CUDA, a vLLM recipe and a container, and its data."""
    recipe = yaml.safe_load((place.top / "recipes/model.yaml").read_text())
    recipe |= {"engine": "vllm", "profile": "own", "port": 8001,
               "flags": {"gpu-memory-utilization": 0.1}}  # fmt: skip
    recipe["weights"] = {"repo": "lab/v", "revision": "main", "license": "mit"}
    (place.top / "recipes/big.yaml").write_text(yaml.safe_dump(recipe))
    files = [{"path": name, "size": 1, "sha256": "0" * 64}
             for name in ("config.json", "tokenizer.json", "model.safetensors")]  # fmt: skip
    snapshot = {"repo": "lab/v", "revision": "main", "commit": "e" * 40, "license": "mit"}
    place.lock["snapshots"]["lab/v@main"] = {**snapshot, "files": files}
    artifacts = place.lock["artifacts"]
    text = f"vllm==1 --hash=sha256:{'0' * 64}\n"
    for name in ("uv", "vllm-own"):
        (place.top / f"{name}.txt").write_text(text)
        artifacts[name] = {"kind": "wheels", "version": "1", "requirements": f"{name}.txt",
                           "sha256": sha256(text.encode())}  # fmt: skip
    artifacts["cuda-keyring"] = {"kind": "file", **place.upstream("/k/cuda-keyring.deb", b"k")}
    artifacts["cuda-repo"] = {"kind": "apt", "url": "https://x.example/", "fingerprint": "A" * 40,
                              "packages": {"cuda-nvcc-13-0": "13.0.88-1"}}  # fmt: skip
    place.write()
    site._lock.cache_clear()
    site._recipes.cache_clear()
    data: dict[str, object] = {
        **settings_defaults(PROJECT / "group_data/all.py"),
        "lock_file": str(place.top / "artifacts.lock.yaml"),
        "recipe_dirs": [str(place.top / "recipes")],
        "serve": ["model", "page", "big"],
        "packages_extra": ["ccache"],
    }
    problems = Problems()
    needs = needs_of({"spark-1": data}, problems)
    assert [str(problem) for problem in problems] == []
    assert needs is not None
    return needs, data


def test_every_artifact_that_a_task_names_is_needed(
    everything: tuple[Needs, dict[str, object]],
) -> None:
    """A new task that asks for a new artifact ends here until needs.py knows it."""
    needs, _ = everything
    known = {item.artifact.removeprefix("artifacts/") for item in needs.files}
    known |= {item.artifact for item in needs.sets} | {item.name for item in needs.images}
    assert named_by_tasks() == {
        "cuda-keyring", "cuda-repo", "hub-client", "llama.cpp-source", "tiktoken-o200k_base", "uv",
    }  # fmt: skip
    assert named_by_tasks() - {"cuda-repo"} <= known
    assert "cuda-nvcc-13-0=13.0.88-1" in needs.packages


def test_packages_are_those_that_the_tasks_install(
    everything: tuple[Needs, dict[str, object]],
) -> None:
    needs, data = everything
    assert base_packages() == base.PACKAGES
    wanted = {"cuda-nvcc-13-0=13.0.88-1"}
    for resource in base.parts(data)["Install packages"]:
        assert isinstance(resource, Packages)
        wanted |= set(resource.names)
    (environment,) = vllm.environments(data)
    wanted |= set(environment.profile.packages)
    assert set(needs.packages) == wanted


def test_a_wheel_set_is_the_text_that_the_machine_installs(
    everything: tuple[Needs, dict[str, object]],
) -> None:
    needs, data = everything
    (environment,) = vllm.environments(data)
    (found,) = [item for item in needs.sets if item.artifact == "vllm-own"]
    assert (found.text, found.python) == (environment.requirements, (3, 12))


def test_an_index_ends_with_a_blank_line(place: Place) -> None:
    """Without it apt 2.6 cannot read the last package: "Internal parsing error"."""
    assert packages_text(place.inputs().debs).endswith("\n\n")
