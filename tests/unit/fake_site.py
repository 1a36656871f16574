"""Recipes and a complete lock for whole deploys on machines that are only answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from sparkwright.paths import PROJECT
from tests.unit.machine_case import COMMIT, HASH

SCENARIO = "FAKE_MACHINE_SCENARIO"  # environment variable: the scenario's file


def write_site(root: Path) -> dict[str, Any]:
    """Recipes `tiny` (running) and `nap` with a complete lock; the data that names them."""
    (root / "recipes").mkdir()
    recipe = {
        "engine": "llama.cpp",
        "description": "a tiny model",
        "port": 8080,
        "memory_gib": 10,
        "context": 4096,
        "weights": {"repo": "lab/a", "revision": "main", "license": "mit", "gated": True},
        "acceptance": {"question": "2+2?", "expect": "4"},
    }
    for name, port in (("tiny", 8080), ("nap", 8081)):
        (root / f"recipes/{name}.yaml").write_text(yaml.safe_dump({**recipe, "port": port}))
    lock = yaml.safe_load((PROJECT / "artifacts.lock.yaml").read_text())
    lock["artifacts"]["cuda-keyring"]["size"] = 4328
    lock["artifacts"]["llama.cpp-source"] |= {"size": 1000, "sha256": HASH}
    files = [{"path": "tiny.gguf", "size": 1000, "sha256": HASH}]
    snapshot = {"repo": "lab/a", "revision": "main", "commit": COMMIT, "license": "mit"}
    lock["snapshots"] = {"lab/a@main": {**snapshot, "files": files}}
    (root / "artifacts.lock.yaml").write_text(yaml.safe_dump(lock))
    return {"recipe_dirs": [f"{root}/recipes"], "lock_file": f"{root}/artifacts.lock.yaml"}
