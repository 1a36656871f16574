"""Whether files make one model that their engine can load."""

from __future__ import annotations

import pytest

from sparkwright.model_files import INDEX, no_model

WHOLE = ["config.json", "tokenizer.json", "model.safetensors"]
SHARDS = [f"model-0000{n}-of-00003.safetensors" for n in (1, 2, 3)]
SHARDED = ["config.json", "tokenizer.json", INDEX, *SHARDS]
WIDEN = "; widen the recipe's include"


@pytest.mark.parametrize(
    "paths",
    [
        WHOLE,
        SHARDED,
        [*SHARDED, "original/model--00001-of-00007.safetensors", "metal/model.bin"],
        # gpt-oss-120b counts from 0 and names the last number: 15 files of "00014".
        ["config.json", "vocab.json", INDEX,
         *(f"model-{n:05d}-of-00014.safetensors" for n in range(15))],
        [*SHARDED, "model_extra_tensors.safetensors"],  # Intel's MTP weights
        ["config.json", "tekken.json", "consolidated.safetensors"],
    ],
)  # fmt: skip
def test_what_vllm_loads(paths: list[str]) -> None:
    assert no_model("vllm", paths) == []


@pytest.mark.parametrize(
    ("paths", "wrong"),
    [
        ([], [f"no config.json among them{WIDEN}",
              f"no tokenizer.json or the like among them{WIDEN}",
              "no .safetensors file among them; check the recipe's include"]),
        (["model.gguf", *WHOLE[:2]],
         ["no .safetensors file among them; check the recipe's include"]),
        (WHOLE[1:], [f"no config.json among them{WIDEN}"]),
        (["original/config.json", *WHOLE[1:]], [f"no config.json among them{WIDEN}"]),
        (["config.json", "model.safetensors"],
         [f"no tokenizer.json or the like among them{WIDEN}"]),
        ([*SHARDED[:2], *SHARDS], [f"shards, but no {INDEX} that names them{WIDEN}"]),
        (SHARDED[:-1], [f"model: shards missing: 00003 of 00003{WIDEN}"]),
        ([*SHARDED[:3], SHARDS[1]], [f"model: shards missing: 00001, 00003 of 00003{WIDEN}"]),
        ([*SHARDED[:3], *(f"sub/{name}" for name in SHARDS)],
         ["no .safetensors file among them; check the recipe's include"]),
    ],
)  # fmt: skip
def test_what_vllm_does_not_load(paths: list[str], wrong: list[str]) -> None:
    assert no_model("vllm", paths) == wrong


def test_other_engines_want_gguf() -> None:
    for serves in ("llama.cpp", "openai"):
        assert no_model(serves, ["m.gguf"]) == []
        assert no_model(serves, WHOLE)
