"""A lock, a recipe or a fleet file that is wrong: exact lines, and nothing is changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.e2e.refusing import (
    LLAMA,
    Bench,
    Fault,
    nothing_contacted,
    preflight,
    serving,
    unchanged,
)
from tests.lab.lab import start_lab

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with start_lab(machines=1) as lab:
        yield Bench(lab, tmp_path_factory.mktemp("files"))


def drop(part: str, name: str, key: str | None = None) -> Fault:
    """The lock lacks a thing, or one value of it."""

    def edit(lock: dict[str, Any]) -> None:
        if key:
            del lock[part][name][key]
        else:
            del lock[part][name]

    return Fault(lock=edit)


REPO = "sparkwright-lab/tiny-llama-GGUF@main"
LOCK = {
    "no snapshot": (
        drop("snapshots", REPO),
        [f"artifacts.lock.yaml: {REPO}: the lock holds no commit and file list for it, and recipe "
         f"{LLAMA} needs them; run `sparkwright lock` on a connected machine"],
    ),
    "a hash that is not known": (
        drop("artifacts", "llama.cpp-source", "sha256"),
        ["artifacts.lock.yaml: artifacts/llama.cpp-source: sha256 not known yet; "
         "run: sparkwright lock"],
    ),
    "no such artifact": (
        drop("artifacts", "tiktoken-o200k_base"),
        ["artifacts.lock.yaml: artifacts/tiktoken-o200k_base: is not in the lock; known: "
         "cuda-keyring, cuda-repo, hub-client, llama.cpp-source"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LOCK)
def test_a_lock_that_lacks_something(bench: Bench, name: str) -> None:
    fault, lines = LOCK[name]
    with unchanged(bench.one):
        preflight(bench.fleet(fault), lines)


def test_weights_without_a_model_are_refused_before_they_are_fetched(bench: Bench) -> None:
    weights = {"repo": "sparkwright-lab/tiny-safetensors", "include": ["*"]}
    fault = Fault(recipes={"wrong": {"weights": weights}})
    with unchanged(bench.one):
        preflight(
            bench.fleet(fault, serving("wrong")),
            ["recipes/wrong.yaml: weights: no .gguf file among them; check the recipe's "
             "include"],
        )  # fmt: skip


def test_a_fleet_file_with_everything_wrong(bench: Bench) -> None:
    fleet = bench.fleet()
    text = yaml.safe_load(fleet.read_text())
    text["sparks"]["spark-1"] |= {"serve": ["tiny-lama-llamacpp"], "setings": {}}
    text["defaults"]["settings"]["gpu_requird"] = True
    fleet.write_text(yaml.safe_dump(text))
    with unchanged(bench.one):
        nothing_contacted(
            fleet,
            [
                "sparks.yaml: defaults/settings/gpu_requird: unknown setting gpu_requird; did you "
                "mean gpu_required?",
                "sparks.yaml: sparks/spark-1: unknown key setings; did you mean settings?",
                "sparks.yaml: sparks/spark-1/serve/0: no recipe named tiny-lama-llamacpp; did you "
                f"mean {LLAMA}?",
                "Nothing was contacted.",
            ],
        )


AGAIN = "cp sparks.example.yaml sparks.yaml, then edit it"
TEXTS = {
    "": f"the file is empty; {AGAIN}",
    "[spark-1]": f"the file must be a map (key: value), not a list; {AGAIN}",
    "sparks:\n\tspark-1: {}\n":
        "line 2: begins with a tab; YAML indents with spaces; replace the tab by spaces",
    "sparks: [spark-1]": "sparks: must be a map, not a list",
}  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_a_fleet_file_that_is_none(bench: Bench, text: str) -> None:
    fleet = bench.fleet(Fault(text={"sparks.yaml": text}))
    with unchanged(bench.one):
        nothing_contacted(fleet, [f"sparks.yaml: {TEXTS[text]}", "Nothing was contacted."])
