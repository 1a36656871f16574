"""A machine as tests of pure plans know it: fleet data, recipes, and what its probe answers."""

from __future__ import annotations

import dataclasses
import importlib.util
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from sparkwright import serving
from sparkwright.artifacts import HubFile, Snapshot
from sparkwright.engines import Place
from sparkwright.fleet_settings import settings_defaults
from sparkwright.paths import FILES, PROJECT
from sparkwright.recipes import Acceptance, Recipe
from sparkwright.recipes import Weights as Source
from sparkwright.resources import State
from sparkwright.site import Planned, Weights
from sparkwright.units import Service

GIB = 2**30
COMMIT = "0123456789abcdef0123456789abcdef01234567"
HASH = "ab" * 32
MODEL = HubFile("tiny.gguf", 1000, sha256=HASH)
DIRECTORY = f"/srv/sparkwright/weights/lab/tiny/{COMMIT[:12]}"
ACCEPTANCE = Acceptance("What are you?", "SPARK", 64, "stop", ("model loaded",), ("error",))
RECIPE = Recipe(
    name="tiny",
    engine="llama.cpp",
    description="a tiny model",
    served_name="tiny",
    port=8080,
    memory_gib=10,
    context=2048,
    weights=Source("lab/tiny", "main", "mit", ("*.gguf",), (), False),
    flags={"flash-attn": "on", "jinja": True},
    env={"GGML_X": "1"},
    load_timeout_s=60,
    acceptance=ACCEPTANCE,
)
WEIGHTS = Weights(
    snapshot=Snapshot("lab/tiny", "main", COMMIT, "mit", (MODEL,)),
    directory=DIRECTORY,
    files=(MODEL,),
    include=("*.gguf",),
    exclude=(),
    license="mit",
    gated=False,
)
ITEM = Planned(RECIPE, 8080, "127.0.0.1", "none", "running", WEIGHTS, (MODEL.path,))
PLACE = Place(
    prefix="/opt/sparkwright",
    data_dir="/srv/sparkwright",
    etc_dir="/etc/sparkwright",
    user="llm",
    reserve_gib=12,
    ollama_url="http://127.0.0.1:11434",
)
HOST: State = {
    "arch": "aarch64",
    "os": "ubuntu 24.04",
    "python": [3, 12],
    "mem_total": 120 * GIB,
    "clock": 1000.0,
    "euid": 0,
    "tools": {"sudo": "/usr/bin/sudo"},
}


def data(**settings: object) -> dict[str, Any]:
    """A machine's data: the project's defaults and what a test overrides."""
    return {**settings_defaults(PROJECT / "group_data/all.py"), **settings}


def item(name: str, **changes: Any) -> Planned:
    """A recipe of another name on the machine."""
    recipe = dataclasses.replace(RECIPE, name=name, **changes.pop("recipe", {}))
    return dataclasses.replace(ITEM, recipe=recipe, **changes)


def program(name: str) -> ModuleType:
    """A machine-side program as a module; what it imports lies beside it, as on a machine."""
    beside = str(FILES / "opt/sparkwright/lib")
    if beside not in sys.path:
        sys.path.append(beside)
    spec = importlib.util.spec_from_file_location(name, FILES / f"opt/sparkwright/lib/{name}.py")
    if spec is None or spec.loader is None:
        raise ImportError(name)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def service(found: serving.Seen, wanted: Planned = ITEM) -> Service:
    """The service that is wanted on a machine with these answers."""
    return serving.service_of(wanted, [wanted], PLACE, found)


def answers(unit: State | None = None, file: State | None = None) -> serving.Seen:
    """Answers to `serving.probes` of a machine with build and weights."""
    build: State = {"type": "link", "target": "0123456789ab"}
    return serving.seen(
        ITEM,
        [
            {"type": "file", "text": '{"manifest_digest": "feed"}'},
            dict(HOST),
            {"type": "missing"},
            {"type": "missing"} if file is None else file,
            {"ActiveState": "inactive", "UnitFileState": ""} if unit is None else unit,
            {"rc": 0, "out": ""},
            {"type": "missing"},
            build,
            {"type": "missing"},
        ],
    )


def merged(base: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
    """A copy with changes."""
    return {**base, **changes}
