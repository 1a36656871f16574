"""Rules for a vLLM recipe's flags and variables that hold for every build of vLLM. Pure checks.

What one build knows and another does not is asked of the installed build (engine_facts.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from sparkwright.yaml_reader import Verdict, kind_word, not_blank

_OURS: Final = "sparkwright sets this flag itself"
_TABLE: Final = "the backend is chosen for the installed build (kernels)"

# Flags that a recipe must not set: (what is wrong, what to do).
REFUSED: Final[dict[str, tuple[str, str]]] = {
    "model": (_OURS, "set weights instead"),
    "tokenizer-revision": (_OURS, "set weights/revision instead"),
    "revision": (_OURS, "set weights/revision instead"),
    "served-model-name": (_OURS, "set served_name instead"),
    "host": (_OURS, "set listen in sparks.yaml instead"),
    "port": (_OURS, "set port (in the recipe or under serve in sparks.yaml) instead"),
    "max-model-len": (_OURS, "set context instead"),
    "api-key": (
        "a key in a command line can be read by every user of the spark",
        "set api_key: generate in sparks.yaml",
    ),
    "fail-on-environ-validation": (_OURS, "remove it; every build that has it gets it"),
    # 59 -> 26 tok/s for gpt-oss-120b on GB10 (conselara.dev, vLLM 0.19.0 of NGC 26.04).
    "enforce-eager": (
        "turns CUDA graphs off, which halves decode speed",
        "remove it; to debug, run vllm by hand",
    ),
    "swap-space": ("was removed in vLLM 0.18", "remove it"),
    "kv-cache-memory-bytes": (
        "skips vLLM's own memory check, and froze a machine (AEON-7/vllm-ultimate-dgx-spark#9)",
        "remove it; gpu-memory-utilization bounds the KV cache",
    ),
    "download-dir": ("weights come from sparkwright", "remove it"),
    "hf-token": ("secrets do not belong in a recipe or a unit", "remove it"),
    "config": ("flags must not hide in another file", "write them under flags"),
}


def vllm_flag_problem(name: str, value: object) -> Verdict:
    """Why a flag cannot stand in a vLLM recipe, or None.

    + name: vLLM's long option name without dashes
    + value: text, number, or True for a bare flag
    """
    plain = name.lstrip("-").replace("_", "-")
    if plain in REFUSED:
        return REFUSED[plain]
    if plain != name:
        return "write vLLM's long name with dashes between words and none in front", (
            f"write {plain}"
        )
    # A dotted name sets one field of a JSON flag: quantization-config.moe.activation.
    if not re.fullmatch(r"[a-z0-9]+([-.][a-z0-9_]+)*", name):
        return "is not a flag name", "write vLLM's long name, as in max-num-seqs"
    if value is False:
        return "false leaves a flag out", f"remove it, or write no-{name}: true"
    if value is None:
        return "has no value", f"write {name}: true for a flag without one"
    if not isinstance(value, str | int | float):
        what = f"must be text, a number or true, not {kind_word(value)}"
        return what, "write JSON as one text in single quotes"
    return not_blank(value) if isinstance(value, str) else None


def vllm_env_problem(name: str, value: object) -> Verdict:
    """Why a variable cannot stand in a vLLM recipe, or None."""
    if name == "VLLM_MARLIN_INPUT_DTYPE" and value == "fp8":
        return "corrupts answers of INT4 experts on GB10 (vllm#49546)", "remove it"
    if name in OWN_ENV:
        return "sparkwright sets this variable itself", "remove it"
    if name in TABLE_ENV:
        return _TABLE, "remove it, and set kernels"
    return None


# A larger share leaves too little for the system on GB10: the start is refused, or the machine
# wedges (vllm-project/recipes#632 and vLLM's post "vLLM on DGX Spark", 2026-06-01).
GPU_SHARE_MAX: Final = 0.88
# Above this context, a prefill batch as long as the context exhausts a GB10
# (AEON-7/vllm-dflash#1).
LONG_CONTEXT: Final = 32768
# Autotuning is on by default from -O1 (vLLM 0.33.0, config/vllm.py).
AUTOTUNE_OFF: Final = "no-enable-flashinfer-autotune"


def vllm_limits(
    flags: Mapping[str, object], env: Mapping[str, str], context: int
) -> Iterator[tuple[str, str, str]]:
    """(place, what is wrong, what to do) of values that fit no Spark, whatever the build.

    + flags, env: of the recipe; context: tokens
    """
    share = flags.get("gpu-memory-utilization")
    if share is None:
        what = "gpu-memory-utilization is missing: vLLM would take 0.92 of the machine"
        yield "flags", what, "write the share that memory_gib pays for, 0.7 for example"
    elif isinstance(share, bool | str) or not 0 < float(str(share)) <= GPU_SHARE_MAX:
        yield (
            "flags/gpu-memory-utilization",
            f"must be a number above 0 and at most {GPU_SHARE_MAX}: more wedges the machine",
            "write 0.7, for example",
        )
    batch = flags.get("max-num-batched-tokens")
    if isinstance(batch, int) and batch >= context > LONG_CONTEXT:
        what = f"{batch} tokens at once, as long as the context, exhaust a GB10 (vllm-dflash#1)"
        yield "flags/max-num-batched-tokens", what, "write 8192 or 16384"
    for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
        if "expandable_segments:True" in env.get(name, "") and AUTOTUNE_OFF not in flags:
            what = "with FlashInfer's autotuning it resets the machine (dgx-spark-playbooks#97)"
            yield f"env/{name}", what, f"remove it, or set flags/{AUTOTUNE_OFF}: true"


# Set for every unit: vLLM's documentation, "Environment Variables" and "Usage Stats Collection".
OWN_ENV: Final = frozenset(
    {
        "HF_HUB_OFFLINE",
        "TRANSFORMERS_OFFLINE",
        "VLLM_NO_USAGE_STATS",
        "VLLM_DO_NOT_TRACK",
        "DO_NOT_TRACK",
        "VLLM_API_KEY",
        "VLLM_CACHE_ROOT",
        "VLLM_CONFIG_ROOT",
        "CUDA_HOME",
        "PATH",
        "HOME",
        "XDG_CACHE_HOME",
        "TRITON_CACHE_DIR",
        "TORCHINDUCTOR_CACHE_DIR",
        "FLASHINFER_WORKSPACE_BASE",
    }
)
# Variables that choose a kernel in some builds and do nothing, or break the start, in others.
TABLE_ENV: Final = frozenset(
    {
        "VLLM_MXFP4_BACKEND",
        "VLLM_MXFP4_USE_MARLIN",
        "VLLM_NVFP4_GEMM_BACKEND",
        "VLLM_NVFP4_MOE_BACKEND",
        "VLLM_USE_FLASHINFER_MOE_FP4",
        "VLLM_USE_FLASHINFER_MOE_MXFP4_MXFP8",
        "VLLM_USE_FLASHINFER_MOE_MXFP4_MXFP8_CUTLASS",
        "VLLM_USE_FLASHINFER_MOE_MXFP4_BF16",
        "VLLM_FLASHINFER_MOE_BACKEND",
        "VLLM_TEST_FORCE_FP8_MARLIN",
    }
)
