"""Recipes as one spark serves them, with each build of vLLM or image that they may find there."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

from sparkwright import engine_vllm, images, serving
from sparkwright.artifacts import HubFile, Snapshot, load_lock
from sparkwright.engine_facts import EngineFacts, Flag
from sparkwright.engines import Place
from sparkwright.paths import PROJECT
from sparkwright.recipes import Recipe, load_recipe
from sparkwright.resources import State
from sparkwright.site import Planned, Weights, need
from sparkwright.units import render_unit
from sparkwright.vllm_releases import facts_of
from tests.unit.machine_case import COMMIT, GIB, HOST, ITEM, PLACE

GOLDEN = PROJECT / "tests/golden"
# MemTotal of a spark, the largest that was reported: 121.69 GiB.
SPARK: State = {**HOST, "mem_total": int(121.69 * GIB)}
VENV = "0a1b2c3d4e5f"
TRITON = {"rc": 0, "out": "cuobjdump nvdisasm ptxas ptxas-blackwell\n"}
OLD_TRITON = {"rc": 0, "out": "cuobjdump nvdisasm ptxas\n"}

STOCK = facts_of("0.33.0")
STOCK_OLD = facts_of("0.17.1")
# A nightly of eugr's is upstream of its day; its version is one that was really published.
NIGHTLY = dataclasses.replace(
    facts_of("0.24.0"), build="E", version="0.24.1rc1.dev701+g00eb7cefa.d20260701"
)
# Patch set T adds one variable to 0.17.1 (namake-taro/vllm-custom: patches/vllm_all.patch).
PATCHED = dataclasses.replace(
    STOCK_OLD,
    build="T",
    env={**STOCK_OLD.env, "VLLM_MXFP4_BACKEND": ("auto", "marlin", "cutlass_fp4", "triton")},
)
# Fork C is upstream of January 2026, with flags of its own (christopherowen/vllm 045293d8); built
# without tags, it has no version.
_OF_ITS_DAY = facts_of("0.14.1")
_NAMES = ("auto", "marlin", "cutlass", "triton", "trtllm", "trtllm_mxfp8")
FORK = dataclasses.replace(
    _OF_ITS_DAY,
    build="C",
    version="0.1.dev1+g045293d.d20260301",
    env={**_OF_ITS_DAY.env, "VLLM_MXFP4_BACKEND": None},
    flags={
        **_OF_ITS_DAY.flags,
        "mxfp4-backend": Flag((*_NAMES, *(name.upper() for name in _NAMES)), True),
        "mxfp4-layers": Flag(None, True),
    },
)
# Profile -> what its venv is, of those that recipes of engine vllm may find.
BUILDS = {"stock": STOCK, "eugr": NIGHTLY, "stock-0.17.1": STOCK_OLD}


# Recipe -> what its image holds.
IMAGES: dict[str, EngineFacts | None] = {
    "gpt-oss-120b-fork": FORK,
    "nemotron-3-super-120b-0.17": STOCK_OLD,
    "open-webui": None,
}
DIGEST = f"sha256:{'ef' * 32}"
ENDPOINTS = ("http://127.0.0.1:8001/v1", "http://192.168.1.12:8002/v1")


def recipe(name: str) -> Recipe:
    """One of the project's recipes."""
    return load_recipe(PROJECT / f"recipes/{name}.yaml")


def names() -> list[str]:
    """The project's recipes of engine vllm."""
    found = [path.stem for path in sorted((PROJECT / "recipes").glob("[!_]*.yaml"))]
    return [name for name in found if recipe(name).engine == "vllm"]


# NVIDIA's guide: MTP with NVFP4 does not work in 0.17.1 on one spark; there is a recipe without.
UNSUPPORTED = ("nemotron-3-super-120b", "stock-0.17.1")


def venv_cases() -> list[tuple[str, str]]:
    """Recipes of engine vllm with each profile that can serve them."""
    return [(name, p) for name in names() for p in BUILDS if (name, p) != UNSUPPORTED]


def cases() -> list[tuple[str, str]]:
    """Every recipe but llama.cpp's with every build that can serve it."""
    return [*venv_cases(), *((name, "image") for name in IMAGES)]


def item(wanted: Recipe, profile: str = "stock") -> Planned:
    """A recipe on the machine, with an API key for what has a model."""
    source = wanted.weights
    if source is None:
        return Planned(wanted, wanted.port, "127.0.0.1", "none", "running", None, ())
    files = (HubFile("config.json", 10, sha256="ab" * 32),)
    weights = Weights(
        snapshot=Snapshot(source.repo, source.revision, COMMIT, source.license, files),
        directory=f"/srv/sparkwright/weights/{source.repo}/{COMMIT[:12]}",
        files=files,
        include=source.include,
        exclude=source.exclude,
        license=source.license,
        gated=False,
    )
    where = profile if wanted.engine == "vllm" else None
    return Planned(
        wanted, wanted.port, "127.0.0.1", "generate", "running", weights, ("config.json",), where
    )


def venv(facts: EngineFacts | None, profile: str = "stock", triton: State | None = None
         ) -> list[State]:  # fmt: skip
    """Answers to engine_vllm.probes; no facts: nothing is installed."""
    if facts is None:
        return [{"type": "missing"}, {"type": "missing"}, {"rc": 2, "out": ""}]
    text = json.dumps(dataclasses.asdict(facts))
    target = {"type": "link", "target": f"{profile}-{VENV}"}
    return [target, {"type": "file", "text": text}, TRITON if triton is None else triton]


def seen(*engine: State) -> serving.Seen:
    """Answers of a spark that has the weights and an API key."""
    return serving.seen(
        ITEM,
        [
            {"type": "file", "text": '{"manifest_digest": "feed"}'},
            SPARK,
            {"type": "file", "sha256": "cd" * 32},
            {"type": "missing"},
            {"ActiveState": "inactive", "UnitFileState": ""},
            {"rc": 0, "out": ""},
            {"type": "missing"},
            *engine,
        ],
    )


def installed(facts: EngineFacts | None, profile: str = "stock") -> engine_vllm.Venv:
    """The venv of a profile as the engine finds it."""
    wanted = item(recipe("gpt-oss-120b"), profile)
    return engine_vllm.installed(wanted, PLACE, venv(facts, profile))


def image(wanted: Planned, facts: EngineFacts | None) -> tuple[Place, list[State]]:
    """The machine with the recipe's image in it, and answers to engine_container.probes."""
    name = need(wanted.recipe.container).image
    real = load_lock(PROJECT / "artifacts.lock.yaml").artifacts[name]
    found = dataclasses.replace(real, digest=DIGEST, size=10)
    record: State = {"id": DIGEST, "image": images.named(found), "inputs": "0123456789ab"}
    record |= {"facts": dataclasses.asdict(facts)} if facts else {}
    place = dataclasses.replace(PLACE, images={name: found}, endpoints=ENDPOINTS)
    return place, [
        {"rc": 0, "out": "998\n997\nunlimited\n"},
        {"rc": 0, "out": '{"Runtimes": {"nvidia": {}}}'},
        {"rc": 0, "out": ""},
        {"type": "file", "text": json.dumps(record)},
        {"rc": 0, "out": DIGEST},
        {"rc": 0, "out": DIGEST},
    ]


def unit_text(name: str, build: str) -> str:
    """The whole unit of a recipe with a build: the name of a profile, or "image"."""
    wanted, where = item(recipe(name), build), PLACE
    if name in IMAGES:
        where, states = image(wanted, IMAGES[name])
    else:
        states = venv(BUILDS[build], build)
    found = seen(*states)
    return render_unit(serving.service_of(wanted, [wanted], where, found))


def golden(name: str, build: str) -> Path:
    """Where that unit is kept."""
    return GOLDEN / f"llm-{name}.{build}.service"


if __name__ == "__main__":  # `python -m tests.unit.vllm_case`, then read the difference
    for case in cases():
        golden(*case).write_text(unit_text(*case))
