"""Rules about variables for number formats: MXFP4 and NVFP4."""

from __future__ import annotations

from collections.abc import Iterator

from sparkwright.lint.context import Context, is_gpt_oss
from sparkwright.lint.findings import Found, Verdict
from sparkwright.lint.model import Assignment, Document, Launch
from sparkwright.lint.registry import launch_rule
from sparkwright.lint.settings import FORK_VARIABLES

WARN, BLOCK = Verdict.WARN, Verdict.BLOCK


@launch_rule(BLOCK, WARN)
def mxfp4_mxfp8_switch(launch: Launch, doc: Document, ctx: Context) -> Iterator[Found]:
    """`VLLM_USE_FLASHINFER_MOE_MXFP4_MXFP8=1`: kernels of SM100, which GB10 is not.

    vLLM 0.19 to 0.23 take the switch as an order and stop with a ValueError on GB10; 0.17 and 0.18
    pass over it; from 0.24 on it is unknown.

    Bad:
        VLLM_USE_FLASHINFER_MOE_MXFP4_MXFP8=1 vllm serve openai/gpt-oss-120b

    Good:
        vllm serve openai/gpt-oss-120b

    Source: vllm-project/vllm#43969; vllm oracle/mxfp4.py (0.19.0)
    """
    build = ctx.build(launch)
    item = launch.get("VLLM_USE_FLASHINFER_MOE_MXFP4_MXFP8")
    if build is None or item is None or item.value in (None, "0") or not build.stock:
        return
    if item.name not in build.facts.env:
        return  # removed-variable says so
    hard = (0, 19) <= build.version < (0, 24)
    yield Found(
        item.at,
        f"{item.name} orders kernels of SM100; "
        + (f"{build.title} stops with a ValueError on GB10" if hard else "GB10 passes over it"),
        "remove it; Marlin is what works there, by itself",
        sees=item.raw,
        verdict=BLOCK if hard else WARN,
    )


@launch_rule(WARN)
def wrong_format_variable(launch: Launch, doc: Document, ctx: Context) -> Iterator[Found]:
    """A variable for NVFP4 with an MXFP4 model, or the other way round.

    gpt-oss is MXFP4, Nemotron's NVFP4 checkpoints are not: the variables of one format do nothing
    for the other, without a word.

    Bad:
        VLLM_NVFP4_GEMM_BACKEND=marlin vllm serve openai/gpt-oss-120b

    Good:
        vllm serve openai/gpt-oss-120b --moe-backend marlin

    Source: vllm/envs.py 0.17.1; quantization/mxfp4.py and oracle/nvfp4.py
    """
    model = ctx.model(launch)
    named = (model.shape if model else "").lower()
    build = ctx.build(launch)
    for item in launch.env:
        if build is None or item.name not in {*build.facts.env, *FORK_VARIABLES}:
            continue
        nvfp4 = "NVFP4" in item.name or item.name.endswith("_MOE_FP4")
        mxfp4 = "MXFP4" in item.name
        if nvfp4 and is_gpt_oss(launch, ctx):
            yield _mixed(item, "NVFP4", "gpt-oss is MXFP4")
        elif mxfp4 and "nvfp4" in named:
            yield _mixed(item, "MXFP4", "the model is NVFP4")


def _mixed(item: Assignment, kind: str, model: str) -> Found:
    return Found(
        item.at,
        f"{item.name} is about {kind} layers, and {model}: it does nothing",
        "remove it; choose with --moe-backend",
        sees=item.raw,
    )
