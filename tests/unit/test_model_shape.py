"""Shapes out of configs, GGUF metadata and headers of files."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from sparkwright import model_shape_gguf
from sparkwright.errors import SparkwrightError
from sparkwright.model_shape import FULL, NONE, SLIDING, STATE, Experts, from_config
from sparkwright.model_shape_files import KNOWN, known, of_directory, of_recipe, safetensors
from sparkwright.paths import PROJECT
from sparkwright.recipes import load_recipes
from tests.lab.tiny_gguf import write_gpt_oss, write_llama

BASE = {
    "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 100, "num_hidden_layers": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 512,
}  # fmt: skip


def shape(repo: str) -> Any:
    return from_config(known()[repo]["config"])


def test_gpt_oss_slides_in_every_second_layer() -> None:
    found = shape("openai/gpt-oss-120b")
    assert found.layers[:2] == (SLIDING, FULL)
    assert (found.count(FULL), found.count(SLIDING), found.window) == (18, 18, 128)
    assert found.kv_elements * 2 == 2048  # bytes of a token in one layer, as the recipes say
    assert found.experts == Experts(128, 4)


def test_nemotron_has_eight_attention_layers() -> None:
    found = shape("nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4")
    counts = [found.count(kind) for kind in (FULL, STATE, NONE)]
    assert counts == [8, 40, 40]
    assert found.ssm * 4 == 4 * 2**20  # 4 MiB of f32 in each Mamba layer
    assert found.conv == 3 * (128 * 64 + 2 * 8 * 128)


@pytest.mark.parametrize(
    ("repo", "full", "state"),
    [("Qwen/Qwen3.5-35B-A3B-FP8", 10, 30), ("Intel/Qwen3.5-122B-A10B-int4-AutoRound", 12, 36)],
)
def test_qwen_sees_everything_in_every_fourth_layer(repo: str, full: int, state: int) -> None:
    found = shape(repo)
    assert (found.count(FULL), found.count(STATE)) == (full, state)
    assert found.layers[3] == FULL


@pytest.mark.parametrize(
    ("more", "layers"),
    [
        ({}, (FULL,) * 4),
        ({"sliding_window": 32}, (SLIDING,) * 4),
        ({"sliding_window": 32, "use_sliding_window": False}, (FULL,) * 4),
        ({"sliding_window": 32, "sliding_window_pattern": 2}, (SLIDING, FULL) * 2),
        ({"layer_types": ["full_attention", "sliding_attention"]}, (FULL, SLIDING)),
        ({"layers_block_type": ["attention", "moe"]}, (FULL, NONE)),
    ],
)
def test_every_way_to_say_kinds_of_layers(more: dict[str, Any], layers: tuple[str, ...]) -> None:
    assert from_config({**BASE, **more}).layers == layers


def test_a_latent_cache_keeps_one_vector() -> None:
    found = from_config({**BASE, "kv_lora_rank": 512, "qk_rope_head_dim": 64})
    assert found.kv_elements == 576


def test_the_text_part_of_a_model_with_images() -> None:
    assert from_config({"text_config": BASE, "hidden_size": 1}).hidden == 64


@pytest.mark.parametrize(
    ("config", "what"),
    [
        ({}, "hidden_size is missing"),
        ({**BASE, "vocab_size": None}, "vocab_size is missing"),
        ({**BASE, "layer_types": ["retention"]}, r"unknown kind \(retention\)"),
        ({**BASE, "layer_types": ["mamba"]}, "not how large"),
    ],
)
def test_what_cannot_be_sized_is_said(config: dict[str, Any], what: str) -> None:
    with pytest.raises(SparkwrightError, match=what):
        from_config(config)


def test_a_gguf_in_shards_is_read_like_the_model_it_is(tmp_path: Path) -> None:
    write_gpt_oss(tmp_path / "tiny.gguf", "template")
    assert len(list(tmp_path.iterdir())) > 1
    model = of_directory(tmp_path)
    assert model.shape.layers == (SLIDING, FULL)
    assert (model.shape.kv_heads, model.shape.key, model.shape.experts) == (2, 64, Experts(4, 2))
    # The tensors are the files but for headers and padding.
    disk = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert 0.9 * disk < model.bytes < disk


def test_a_shard_that_is_missing_or_short_is_named(tmp_path: Path) -> None:
    """What is not there would take no memory, and the model would fit."""
    write_gpt_oss(tmp_path / "tiny.gguf", "template")
    shard = sorted(tmp_path.iterdir())[1]
    data = shard.read_bytes()
    for size, why in ((100, "ends inside of its header"), (5000, "shorter than its own header")):
        shard.write_bytes(data[:size])
        with pytest.raises(SparkwrightError, match=rf"{shard.name}: .*{why}.*; fetch it again"):
            of_directory(tmp_path)
    shard.unlink()
    with pytest.raises(SparkwrightError, match=rf"{shard.name}: is missing; fetch it again"):
        of_directory(tmp_path)


def test_a_plain_gguf(tmp_path: Path) -> None:
    write_llama(tmp_path / "tiny.gguf")
    found = of_directory(tmp_path).shape
    assert (found.layers, found.kv_heads, found.experts) == ((FULL, FULL), 3, None)


@pytest.mark.parametrize("text", [b"GGUF", b"PK\3\4" + bytes(40), b""])
def test_what_is_no_gguf_is_said(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(text)
    with pytest.raises(SparkwrightError, match=r"x\.gguf"):
        model_shape_gguf.read(path)


def test_hybrid_metadata() -> None:
    """Nemotron-H in GGUF: heads and widths of feed-forwards are lists, a zero is no such part."""
    metadata = {
        "general.architecture": "nemotron_h_moe", "nemotron_h_moe.block_count": 3,
        "nemotron_h_moe.embedding_length": 64, "nemotron_h_moe.attention.head_count": [0, 4, 0],
        "nemotron_h_moe.attention.head_count_kv": [0, 2, 0],
        "nemotron_h_moe.feed_forward_length": [0, 0, 128], "nemotron_h_moe.ssm.inner_size": 128,
        "nemotron_h_moe.ssm.state_size": 16, "nemotron_h_moe.ssm.conv_kernel": 4,
        "nemotron_h_moe.ssm.group_count": 2, "nemotron_h_moe.vocab_size": 10,
    }  # fmt: skip
    found = model_shape_gguf.shape_of(metadata, "x")
    assert found.layers == (STATE, FULL, NONE)
    assert (found.conv, found.ssm) == (3 * (128 + 64), 2048)


def test_headers_of_safetensors(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    header = json.dumps(
        {"__metadata__": {}, "a": {"dtype": "BF16", "shape": [2, 4], "data_offsets": [0, 16]}}
    ).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(16))
    assert [(t.name, t.bytes, t.rows) for t in safetensors(path)] == [("a", 16, 2)]
    (tmp_path / "config.json").write_text(json.dumps(BASE))
    assert of_directory(tmp_path).bytes == 16
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(SparkwrightError, match=r"model\.safetensors: is shorter"):
        of_directory(tmp_path)
    path.rename(tmp_path / "model-00002-of-00002.safetensors")
    with pytest.raises(SparkwrightError, match=r"model-00001-of-00002\.safetensors: is missing"):
        of_directory(tmp_path)


@pytest.mark.parametrize("text", [b"", struct.pack("<Q", 2**60), struct.pack("<Q", 2) + b"no"])
def test_damaged_safetensors_are_said(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(text)
    with pytest.raises(SparkwrightError, match="repair it"):
        safetensors(path)


def test_a_directory_without_a_model(tmp_path: Path) -> None:
    with pytest.raises(SparkwrightError, match="holds neither"):
        of_directory(tmp_path)
    with pytest.raises(SparkwrightError, match="is no directory"):
        of_directory(tmp_path / "no")


def test_every_model_of_our_recipes_is_known_with_its_source() -> None:
    for recipe in load_recipes([PROJECT / "recipes"]).values():
        if recipe.weights:
            serves = "vllm" if recipe.runs_vllm else "llama.cpp"
            model = of_recipe(recipe.weights, None, serves)
            assert model.bytes > 2**30
            assert all(source for source in model.sources)
    for name, entry in json.loads(KNOWN.read_text()).items():
        assert entry["source"], name
        assert "resident_gib" not in entry or entry["resident_source"], name
