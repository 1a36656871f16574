"""The command line of `vllm serve`, from a recipe and the backend of the installed build."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

from sparkwright.engine_facts import EngineFacts
from sparkwright.recipe_types import Recipe

# Offline by construction: no name is looked up on the Hub, nothing is reported home (vLLM's
# documentation, "Usage Stats Collection"; huggingface_hub, "Environment variables").
OFFLINE: Mapping[str, str] = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
}


def words(
    recipe: Recipe,
    *,
    model: str,
    port: int,
    listen: str,
    backend: Mapping[str, str | int | float | bool],
) -> tuple[str, ...]:
    """The words after `vllm serve`: what sparkwright owns first, then flags by name.

    + model: absolute path, so that nothing is looked up on the Hub; clients use `served_name`
    + backend: flags that the installed build wants for the recipe's kernels; the recipe's own win
    """
    own = [model, "--served-model-name", recipe.served_name, "--host", listen]
    own += ["--port", str(port), "--max-model-len", str(recipe.context)]
    for name, value in sorted({**backend, **recipe.flags}.items()):
        own.append(f"--{name}")
        if value is not True:
            own.append(str(value))
    return tuple(own)


def without_idle(recipe: Recipe, facts: EngineFacts | None) -> Recipe:
    """The recipe without the flags of which this build says itself that they have no effect.

    A recipe can hold what an older build needs: --mamba-cache-mode counts until vLLM 0.32.
    """
    told = facts.deprecated if facts else {}
    idle = {name for name in recipe.flags if "has no effect" in told.get(f"--{name}", "")}
    left = {name: value for name, value in recipe.flags.items() if name not in idle}
    return dataclasses.replace(recipe, flags=left) if idle else recipe


def caches(directory: str) -> dict[str, str]:
    """Variables that keep every cache of vLLM and what it compiles with in one directory.

    + directory: the unit's own, writable for the service user
    """
    return {
        "HOME": directory,
        "XDG_CACHE_HOME": directory,
        "VLLM_CACHE_ROOT": f"{directory}/vllm",
        "VLLM_CONFIG_ROOT": f"{directory}/vllm-config",
        "TRITON_CACHE_DIR": f"{directory}/triton",
        "TORCHINDUCTOR_CACHE_DIR": f"{directory}/inductor",
        "FLASHINFER_WORKSPACE_BASE": directory,
    }


def over_budget(recipe: Recipe, memory_gib: float) -> list[str]:
    """Whether vLLM would take more than the recipe says, which the machine's plan adds up.

    vLLM takes its share of all memory at the start, needed or not (v1/worker/utils.py,
    request_memory); on GB10 the GPU's memory is the machine's.

    + memory_gib: all memory of the machine
    """
    share = recipe.flags.get("gpu-memory-utilization")
    if not recipe.runs_vllm or not isinstance(share, int | float):
        return []
    taken = share * memory_gib
    if taken <= recipe.memory_gib:
        return []
    fits = math.floor(recipe.memory_gib / memory_gib * 100) / 100
    return [
        f"gpu-memory-utilization {share:g} takes {taken:.1f} of {memory_gib:.1f} GiB, but "
        f"memory_gib is {recipe.memory_gib:g}; raise memory_gib to {math.ceil(taken)} or more, or "
        f"lower gpu-memory-utilization to {fits:g}"
    ]
