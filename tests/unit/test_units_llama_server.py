"""llama-server's command line and the file after --model."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from sparkwright import llama_server
from sparkwright.errors import SparkwrightError
from sparkwright.recipes import load_recipe

RECIPES = Path(__file__).parents[2] / "recipes"
SHARDS = [f"d/m-0000{number}-of-00003.gguf" for number in (1, 2, 3)]


@dataclass(frozen=True)
class Model:
    """The part of a recipe that matters here."""

    name: str = "m"
    served_name: str = "model one"
    context: int = 4096
    flags: dict[str, str | int | float | bool] = field(default_factory=dict)


def words(model: Model, key: str | None = None) -> tuple[str, ...]:
    return llama_server.argv(
        model, binary="/b", model="/m.gguf", port=8080, listen="::1", api_key_file=key
    )


def test_owned_words_first_then_flags_by_name() -> None:
    model = Model(flags={"ubatch-size": 512, "jinja": True, "temp": 0.5, "flash-attn": "on"})
    assert words(model, "/etc/k") == (
        "/b", "--model", "/m.gguf", "--alias", "model one", "--host", "::1", "--port", "8080",
        "--ctx-size", "4096", "--api-key-file", "/etc/k",
        "--flash-attn", "on", "--jinja", "--temp", "0.5", "--ubatch-size", "512",
    )  # fmt: skip


def test_false_is_refused() -> None:
    with pytest.raises(SparkwrightError, match="m: flags/jinja: false has no form"):
        words(Model(flags={"jinja": False}))


def test_takes_a_real_recipe() -> None:
    recipe = load_recipe(RECIPES / "gpt-oss-120b-llamacpp.yaml")
    argv = llama_server.argv(
        recipe, binary="/b", model="/m", port=1, listen="h", api_key_file=None
    )  # fmt: skip
    assert argv[argv.index("--load-mode") + 1] == "none"
    assert argv[argv.index("--flash-attn") + 1] == "on"


@pytest.mark.parametrize(
    ("paths", "first"),
    [
        (["README.md", "gpt-oss-120b-MXFP4.gguf"], "gpt-oss-120b-MXFP4.gguf"),
        ([*reversed(SHARDS), "LICENSE"], SHARDS[0]),
        (["m-00001-of-00001.gguf"], "m-00001-of-00001.gguf"),
        (["m-1-of-2.gguf"], "m-1-of-2.gguf"),
    ],
)
def test_first_shard(paths: list[str], first: str) -> None:
    assert llama_server.first_shard(paths) == first


@pytest.mark.parametrize(
    ("paths", "said"),
    [
        ([], "no .gguf file"),
        (["model.safetensors"], "no .gguf file"),
        (SHARDS[1:], f"shards missing: {SHARDS[0]}"),
        ([SHARDS[0], SHARDS[2]], f"shards missing: {SHARDS[1]}"),
        (["a.gguf", "b.gguf"], "more than one model (a.gguf, b.gguf)"),
        ([*SHARDS, "mmproj.gguf"], "more than one model"),
        ([*SHARDS, "m-00001-of-00003.gguf"], "more than one model"),
        ([*SHARDS, "d/m-00004-of-00003.gguf"], "shard numbers out of range"),
        (["m-00002-of-00002.gguf"], "shards missing: m-00001-of-00002.gguf"),
    ],
)
def test_first_shard_refuses(paths: list[str], said: str) -> None:
    with pytest.raises(SparkwrightError, match=re.escape(said)):
        llama_server.first_shard(paths)
