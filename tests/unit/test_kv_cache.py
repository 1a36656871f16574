"""Caches in bytes, against what engines print and what is published."""

from __future__ import annotations

import pytest

from sparkwright.kv_cache import (
    LlamaCache,
    VllmCache,
    blocks,
    depth_bytes,
    llama_bytes,
    reported_tokens,
    vllm_blocks,
    vllm_bytes,
)
from sparkwright.model_shape import from_config
from sparkwright.model_shape_files import known

MIB = 2**20
GPT_OSS = from_config(known()["openai/gpt-oss-120b"]["config"])
NEMOTRON = from_config(known()["nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4"]["config"])


def test_llama_keeps_the_context_in_half_of_the_layers() -> None:
    # 18 x 2,048 bytes x 32,768 tokens, and 18 x 2,048 x 768 (128 + 512, padded to 256).
    assert llama_bytes(GPT_OSS, LlamaCache(32768, slots=1)) == (1152 + 27) * MIB


def test_llama_without_a_shared_context_pads_each_slot() -> None:
    shared = llama_bytes(GPT_OSS, LlamaCache(32768, slots=2))
    apart = llama_bytes(GPT_OSS, LlamaCache(32768, slots=2, unified=False))
    assert apart - shared == 18 * 2048 * (2 * 768 - 768)


def test_llama_with_a_full_window_and_a_small_type() -> None:
    full = llama_bytes(GPT_OSS, LlamaCache(32768, slots=1, full_window=True))
    assert full == 2 * 1152 * MIB
    half = LlamaCache(32768, slots=1, full_window=True, key=17 / 16, value=17 / 16)
    assert llama_bytes(GPT_OSS, half) == pytest.approx(full * 17 / 32)


def test_a_sliding_layer_never_keeps_more_than_the_context() -> None:
    assert llama_bytes(GPT_OSS, LlamaCache(256, slots=1)) == 36 * 2048 * 256


def test_states_are_kept_for_each_slot_whatever_the_context() -> None:
    states = 40 * (NEMOTRON.conv + NEMOTRON.ssm) * 4
    two = llama_bytes(NEMOTRON, LlamaCache(512, slots=2))
    assert two == 8 * 1024 * 512 + 2 * states


def test_vllm_gives_both_halves_of_gpt_oss_the_same_blocks() -> None:
    cut = blocks(GPT_OSS, VllmCache())
    assert (cut.tokens, cut.full, cut.sliding, cut.state) == (16, 1, 1, 0)
    assert cut.bytes == 16 * 2048 * 18
    # 8,192 blocks for all, and a window of 127 + two batches of 8,192, one block more.
    assert vllm_blocks(GPT_OSS, VllmCache(), cut, 131072) == 8192 + 1032 + 1


def test_vllm_makes_blocks_as_large_as_a_mamba_state() -> None:
    cut = blocks(NEMOTRON, VllmCache(element=1))
    # 512 bytes a token, 4,255,744 a state: 8,320 tokens; 8 attention layers, five times 8 others.
    assert (cut.tokens, cut.full, cut.state) == (8320, 1, 5)
    assert vllm_blocks(NEMOTRON, VllmCache(element=1), cut, 200_000) == 25 + 5
    aligned = VllmCache(element=1, states=2 + 3)
    assert vllm_blocks(NEMOTRON, aligned, cut, 200_000) == 25 + 5 * 5


def test_a_short_request_takes_little() -> None:
    assert vllm_bytes(GPT_OSS, VllmCache(), 16) == 3 * 16 * 2048 * 18


def test_tokens_as_older_vllm_reports_them() -> None:
    # Two groups share the blocks, so a token counts as if it were kept in all 36 layers.
    assert reported_tokens(GPT_OSS, VllmCache(), 36 * 2048 * 1600) == 1600


def test_what_a_token_reads_at_a_depth() -> None:
    assert depth_bytes(GPT_OSS, 0, 2) == 0
    assert depth_bytes(GPT_OSS, 32768, 2) == 18 * 2048 * (32768 + 128)
    assert depth_bytes(NEMOTRON, 1, 1) == 8 * 512 + 40 * (NEMOTRON.conv + NEMOTRON.ssm) * 4
