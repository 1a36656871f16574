"""What llama-server needs: everything is taken at the start, so there is one sum. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from sparkwright.errors import SparkwrightError
from sparkwright.fit import GIB, MOST_CONTEXT, MOST_USERS, Fit, Machine, Part, largest, weights_part
from sparkwright.kv_cache import ELEMENT, LlamaCache, llama_bytes
from sparkwright.model_shape import FULL, ModelShape
from sparkwright.model_shape_files import Model
from sparkwright.recipe_types import Recipe

# CUDA context, kernels, the process itself; our allowance, not yet measured on a spark.
PROCESS_GIB: Final = 1.5
# Defaults of llama-server (common/common.h at llama.cpp 0c1e57098).
UBATCH, SLOTS, CACHE_RAM_MIB = 512, 4, 8192
STEP = 256  # llama.cpp pads a context to it


def cache_of(recipe: Recipe, context: int, users: int) -> LlamaCache:
    """The cache for so many users of so many tokens each.

    Raises SparkwrightError for a cache type that is not known.
    """
    flags = recipe.flags
    kinds = {}
    for part in ("k", "v"):
        kind = str(flags.get(f"cache-type-{part}", "f16"))
        if kind not in ELEMENT:
            what = f"{kind} is no type of KV cache; known: {', '.join(ELEMENT)}"
            raise SparkwrightError(f"{recipe.name}: flags/cache-type-{part}: {what}")
        kinds[part] = ELEMENT[kind]
    told = int(flags.get("parallel", SLOTS))
    return LlamaCache(
        cells=context * users,
        slots=max(users, told),
        # Without an explicit number of slots, they share the context.
        unified="kv-unified" in flags or "parallel" not in flags,
        batch=int(flags.get("ubatch-size", UBATCH)),
        key=kinds["k"],
        value=kinds["v"],
        full_window="swa-full" in flags,
    )


def compute_bytes(shape: ModelShape, batch: int) -> float:
    """llama.cpp's largest compute buffer: logits and one hidden row of f32 for each token of a
    batch. gpt-oss-120b with 512: 398.4 MiB, which is what llama.cpp prints for it."""
    return float(batch) * (shape.vocab + shape.hidden) * 4


def fit(recipe: Recipe, model: Model, machine: Machine, context: int, users: int) -> Fit:
    """
    The sum for llama-server.

    + context: tokens of each user
    """

    shape, told = model.shape, int(recipe.flags.get("parallel", SLOTS))
    cache = cache_of(recipe, context, users)
    others = _others(recipe, model, cache.batch)
    room = machine.available_gib - sum(part.gib for part in others)

    def cached(tokens: int, count: int) -> float:
        cells, slots = tokens * count, max(count, told)
        return llama_bytes(shape, replace(cache, cells=cells, slots=slots)) / GIB

    limit = shape.context or MOST_CONTEXT
    kv = Part("KV cache", cached(context, users), f"{users} x {context} tokens")
    token = shape.kv_heads * (shape.key * cache.key + shape.value * cache.value)
    return Fit(
        engine="llama.cpp",
        context=context,
        users=users,
        parts=(others[0], kv, *others[1:]),
        available_gib=machine.available_gib,
        max_context=largest(lambda tokens: cached(tokens, users) <= room, limit, STEP),
        max_users=largest(lambda count: cached(context, count) <= room, MOST_USERS),
        kv_token=shape.count(FULL) * token,
        notes=notes(recipe, shape, context, users),
        sources=model.sources,
    )


def _others(recipe: Recipe, model: Model, batch: int) -> tuple[Part, ...]:
    """Everything but the KV cache, the weights first."""
    prompts = int(recipe.flags.get("cache-ram", CACHE_RAM_MIB))
    compute = compute_bytes(model.shape, batch) / GIB
    return (
        weights_part(model),
        Part("compute", compute, f"logits of {batch} tokens, f32"),
        Part("prompt cache", max(prompts, 0) / 1024, "flag cache-ram, in the machine's memory"),
        Part("process", PROCESS_GIB, "CUDA context and programs; our allowance, not measured"),
    )


def notes(recipe: Recipe, shape: ModelShape, context: int, users: int) -> tuple[str, ...]:
    """What else to say."""
    said = []
    if context * users > recipe.context:
        said.append(
            f"set context: {context * users} in the recipe: all users share it "
            f"(now {recipe.context})"
        )
    if shape.context and context > shape.context:
        said.append(f"the model was trained for {shape.context} tokens, not {context}")
    if int(recipe.flags.get("cache-ram", CACHE_RAM_MIB)) < 0:
        said.append("cache-ram -1 has no limit: the prompt cache grows beside this sum")
    return tuple(said)
