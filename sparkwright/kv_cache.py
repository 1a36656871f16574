"""Bytes of the KV cache and of recurrent states, as llama.cpp and vLLM lay them out. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from sparkwright.model_shape import FULL, SLIDING, STATE, ModelShape

# Bytes of one element by the engines' names of types; block formats with their scales
# (ggml-common.h: q8_0 34 bytes for 32, q4_0 18, q5_0 22).
ELEMENT: Final = {
    "f32": 4.0, "float32": 4.0, "f16": 2.0, "bf16": 2.0, "float16": 2.0, "bfloat16": 2.0,
    "auto": 2.0, "fp8": 1.0, "fp8_e4m3": 1.0, "fp8_e5m2": 1.0, "nvfp4": 0.5625, "q8_0": 34 / 32,
    "q5_0": 22 / 32, "q5_1": 24 / 32, "q4_0": 18 / 32, "q4_1": 20 / 32, "iq4_nl": 18 / 32,
}  # fmt: skip
BLOCK = 16  # tokens of a block in vLLM where nothing asks for larger ones (cache_config.py)
# Batches that may be on their way at once with async scheduling, vLLM's default since 0.20
# (config/vllm.py, max_in_flight_tokens).
IN_FLIGHT = 2


def depth_bytes(shape: ModelShape, depth: int, kv_bytes: float, state_bytes: float = 4) -> float:
    """What one decoded token reads of the caches of its own request, at a depth in tokens."""
    seen = shape.count(FULL) * depth + shape.count(SLIDING) * min(depth, shape.window)
    state = shape.count(STATE) * (shape.conv + shape.ssm) * state_bytes if depth else 0
    return seen * shape.kv_elements * kv_bytes + state


@dataclass(frozen=True)
class LlamaCache:
    """How llama-server was told to cache.

    + cells: tokens over all slots (ctx-size)
    + slots: requests at once (parallel)
    + unified: slots share the cells (kv-unified)
    + batch: tokens that are computed at once (ubatch-size)
    + key, value: bytes of an element
    + full_window: sliding layers keep everything (swa-full)
    """

    cells: int
    slots: int = 4
    unified: bool = True
    batch: int = 512
    key: float = 2
    value: float = 2
    full_window: bool = False


def llama_bytes(shape: ModelShape, cache: LlamaCache) -> float:
    """All of llama.cpp's caches, bytes: it takes them at the start, used or not.

    llama-kv-cache-iswa.cpp: a sliding layer keeps the window of every slot and one batch, padded
    to 256 cells; llama-memory-recurrent.cpp: states are f32, one for each slot.
    """
    streams = 1 if cache.unified else cache.slots
    each = cache.cells // streams
    windows = shape.window * (cache.slots if cache.unified else 1) + cache.batch
    kept = each if cache.full_window else math.ceil(min(each, windows) / 256) * 256
    token = shape.kv_heads * (shape.key * cache.key + shape.value * cache.value)
    cells = streams * (shape.count(FULL) * each + shape.count(SLIDING) * kept)
    states = cache.slots * shape.count(STATE) * (shape.conv + shape.ssm) * 4
    return cells * token + states


@dataclass(frozen=True)
class VllmCache:
    """How vLLM was told to cache.

    + element: bytes of a KV element (kv-cache-dtype)
    + conv, ssm: bytes of an element of the two parts of a state
    + batched: max-num-batched-tokens
    + states: blocks that each request keeps in a state layer: 1, with mamba-cache-mode `align`
      (prefix caching) 2; one more for each speculated token
    """

    element: float = 2
    conv: float = 2
    ssm: float = 4
    batched: int = 8192
    states: int = 1


@dataclass(frozen=True)
class Blocks:
    """vLLM's pool: blocks of one size, of which each group of layers takes its own.

    + tokens: of a block of an attention layer
    + bytes: of a block over all layers of a group
    + full, sliding, state: number of groups
    """

    tokens: int
    bytes: float
    full: int
    sliding: int
    state: int


def blocks(shape: ModelShape, cache: VllmCache) -> Blocks:
    """How the pool is cut (vLLM 0.33, v1/core/kv_cache_utils.py and platforms/interface.py).

    Layers are put into groups of the same number of layers, and the attention block is made so
    large that a state fits into it.
    """
    token = shape.kv_elements * cache.element
    state = shape.conv * cache.conv + shape.ssm * cache.ssm
    tokens = BLOCK
    if shape.count(STATE) and token:
        tokens = BLOCK * math.ceil(state / (BLOCK * token))
    counts = [shape.count(kind) for kind in (FULL, SLIDING, STATE)]
    some = [count for count in counts if count]
    # Nearly equal numbers are padded to the larger one, others cut into groups of the smallest.
    size = max(some) if max(some) < 1.5 * min(some) else min(some)
    groups = [math.ceil(count / size) for count in counts]
    return Blocks(tokens, tokens * token * size or state * size, *groups)


def vllm_blocks(shape: ModelShape, cache: VllmCache, cut: Blocks, context: int) -> int:
    """Blocks that one request of a length takes at most (v1/kv_cache_interface.py)."""
    held = min(shape.window - 1 + IN_FLIGHT * cache.batched, context)
    full = cut.full * math.ceil(context / cut.tokens)
    sliding = cut.sliding * (math.ceil(held / cut.tokens) + 1)
    return full + sliding + cut.state * cache.states


def vllm_bytes(shape: ModelShape, cache: VllmCache, context: int) -> float:
    """Pool that one request of a length takes, bytes."""
    cut = blocks(shape, cache)
    return vllm_blocks(shape, cache, cut, context) * cut.bytes


def reported_tokens(shape: ModelShape, cache: VllmCache, pool: float) -> int:
    """ "GPU KV cache size: N tokens" as vLLM up to 0.17.1 says it: blocks over groups.

    Not what fits: a request takes far fewer blocks of a sliding or state group than of a full one.
    """
    cut = blocks(shape, cache)
    return int(pool / cut.bytes) // (cut.full + cut.sliding + cut.state) * cut.tokens
