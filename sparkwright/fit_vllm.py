"""What vLLM needs: a share of all memory, of which weights leave a KV pool. Pure."""

from __future__ import annotations

import json
import math
from typing import Final

from sparkwright.errors import SparkwrightError
from sparkwright.fit import (
    GIB,
    MOST_CONTEXT,
    MOST_USERS,
    Fit,
    Machine,
    Part,
    largest,
    weights_part,
)
from sparkwright.kv_cache import ELEMENT, VllmCache, vllm_bytes
from sparkwright.model_shape import FULL
from sparkwright.model_shape_files import Model
from sparkwright.recipe_types import Recipe
from sparkwright.vllm_rules import GPU_SHARE_MAX

# Peak of the profiled run on GB10: 1.39 GiB with 2,048 batched tokens, 5.30 with 8,224
# (MiaAI-Lab/DeepSeek-v4-Flash-One-DGX-Spark#4); a straight line through both.
PEAK_GIB_PER_TOKEN: Final = (5.30 - 1.39) / (8224 - 2048)
PEAK_GIB: Final = 1.39 - 2048 * PEAK_GIB_PER_TOKEN
# Processes, pinned buffers and compilers outside of vLLM's share: the allowance of our recipes
# (memory_gib less share x MemTotal), not yet measured on a spark.
OUTSIDE_GIB: Final = 4.6
BATCHED: Final = 8192  # vLLM's default of max-num-batched-tokens for a server on a large GPU
STEP = 1024


def cache_of(recipe: Recipe) -> VllmCache:
    """The cache as the recipe's flags say.

    Raises SparkwrightError for a KV type that is not known.
    """
    flags = recipe.flags
    kind = str(flags.get("kv-cache-dtype", "auto"))
    if kind not in ELEMENT:
        what = f"{kind} is no type of KV cache; known: {', '.join(ELEMENT)}"
        raise SparkwrightError(f"{recipe.name}: flags/kv-cache-dtype: {what}")
    spoken = _speculated(flags.get("speculative-config"))
    aligned = flags.get("mamba-cache-mode") == "align"
    return VllmCache(
        element=ELEMENT[kind],
        conv=ELEMENT.get(str(flags.get("mamba-cache-dtype", "auto")), 2.0),
        # Both engines keep the recurrent part of these models in f32 unless told otherwise.
        ssm=ELEMENT.get(str(flags.get("mamba-ssm-cache-dtype", "float32")), 4.0),
        batched=int(flags.get("max-num-batched-tokens", BATCHED)),
        states=(2 if aligned else 1) + spoken,
    )


def _speculated(text: object) -> int:
    try:
        found = json.loads(text) if isinstance(text, str) else {}
    except ValueError:
        return 0
    return int(found.get("num_speculative_tokens", 0)) if isinstance(found, dict) else 0


def peak_gib(batched: int) -> float:
    """Activations, which vLLM measures with a full batch before it sizes the pool."""
    return PEAK_GIB + batched * PEAK_GIB_PER_TOKEN


def fit(recipe: Recipe, model: Model, machine: Machine, context: int, users: int) -> Fit:
    """
    The sum for vLLM, and the share that gives it.

    + context: tokens of each user
    """

    cache, shape = cache_of(recipe), model.shape
    seats = int(recipe.flags.get("max-num-seqs", MOST_USERS))

    def need(tokens: int, count: int) -> float:
        return count * vllm_bytes(shape, cache, tokens) / GIB

    weights, peak, outside = _others(model, cache)
    kv = Part("KV cache", need(context, users), f"{users} x {context} tokens")
    fixed = weights.gib + peak.gib
    highest = min(GPU_SHARE_MAX, (machine.available_gib - OUTSIDE_GIB) / machine.total_gib)
    room = highest * machine.total_gib - fixed
    share = math.ceil((fixed + kv.gib) / machine.total_gib * 100) / 100
    right = share <= math.floor(highest * 100) / 100
    return Fit(
        engine="vllm",
        context=context,
        users=users,
        parts=(weights, kv, peak, outside),
        available_gib=min(machine.available_gib, GPU_SHARE_MAX * machine.total_gib + OUTSIDE_GIB),
        max_context=largest(lambda t: need(t, users) <= room, shape.context or MOST_CONTEXT, STEP),
        max_users=largest(lambda count: need(context, count) <= room, seats),
        kv_token=shape.count(FULL) * shape.kv_elements * cache.element,
        share=share if right else None,
        why=_why(share, fixed, kv, machine, highest) if right else (),
        pool=_pool(recipe, machine, fixed, need(context, 1), seats),
        notes=_notes(recipe, model, context, users),
        sources=model.sources,
    )


def _others(model: Model, cache: VllmCache) -> tuple[Part, Part, Part]:
    """Weights, activations, and what runs outside of the share."""
    batched = cache.batched
    peak = f"peak with {batched} batched tokens, by the one public measurement on GB10"
    return (
        weights_part(model),
        Part("activations", peak_gib(batched), peak),
        Part("outside", OUTSIDE_GIB, "beside the share; our allowance, not measured"),
    )


def _why(share: float, fixed: float, kv: Part, machine: Machine, highest: float) -> tuple[str, ...]:
    return (
        f"weights and activations {fixed:.1f} + KV cache {kv.gib:.1f} GiB for {kv.why} = "
        f"{fixed + kv.gib:.1f} of {machine.total_gib:g} GiB, rounded up to a hundredth",
        f"vLLM takes {share:g} x {machine.total_gib:g} = {share * machine.total_gib:.1f} GiB at "
        "the start, needed or not, so more than this only takes memory from others",
        f"at most {math.floor(highest * 100) / 100:g} here: {GPU_SHARE_MAX:g} is where machines "
        "begin to wedge, and the reserve and what runs beside must stay free",
    )


def _pool(
    recipe: Recipe, machine: Machine, fixed: float, one: float, seats: int
) -> tuple[float, int] | None:
    """KV pool with the recipe's own share, and users of the asked context in it."""
    share = recipe.flags.get("gpu-memory-utilization")
    if not isinstance(share, int | float):
        return None
    pool = share * machine.total_gib - fixed
    return pool, max(0, min(seats, int(pool / one)) if one else 0)


def _notes(recipe: Recipe, model: Model, context: int, users: int) -> tuple[str, ...]:
    said, seats = [], recipe.flags.get("max-num-seqs")
    if context > recipe.context:
        said.append(f"set context: {context} in the recipe (now {recipe.context})")
    if isinstance(seats, int) and users > seats:
        said.append(f"set max-num-seqs: {users} (now {seats}), or the others wait")
    if model.shape.context and context > model.shape.context:
        said.append(f"the model was trained for {model.shape.context} tokens, not {context}")
    if "speculative-config" in recipe.flags:
        said.append("the KV cache of the draft layer is not counted (one more attention layer)")
    return tuple(said)
