"""A good recipe of each engine, written with changes, and the messages that it gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkwright.errors import SparkwrightError
from sparkwright.recipes import load_recipe

GOOD: dict[str, str] = {
    "engine": "llama.cpp",
    "description": "A model",
    "port": "8080",
    "memory_gib": "1.5",
    "context": "4096",
    "weights": "{repo: a/b, revision: main, license: mit}",
    "acceptance": '{question: "2+2?", expect: "4"}',
}
VLLM = {"engine": "vllm", "flags": "{gpu-memory-utilization: 0.5}"}
CONTAINER = {"engine": "container", "container": "{image: i, serves: openai}"}
PAGE: dict[str, str | None] = {
    "engine": "container",
    "container": "{image: i, serves: web}",
    "context": None,
    "weights": None,
    "acceptance": "{expect: Hello}",
}


def write(directory: Path, name: str = "x.yaml", /, **changes: str | None) -> Path:
    """A good recipe with some keys changed, or left out (None)."""
    (directory / "recipes").mkdir(exist_ok=True)
    path = directory / "recipes" / name
    lines = {**GOOD, **changes}.items()
    path.write_text("".join(f"{key}: {value}\n" for key, value in lines if value is not None))
    return path


def errors(path: Path) -> list[str]:
    with pytest.raises(SparkwrightError) as error:
        load_recipe(path)
    return str(error.value).splitlines()
