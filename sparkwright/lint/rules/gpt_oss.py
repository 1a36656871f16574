"""Rules about gpt-oss: attention with sinks, harmony's parser, kernels that were wrong."""

from __future__ import annotations

from collections.abc import Iterator

from sparkwright.lint import flags
from sparkwright.lint.context import Context, is_gpt_oss
from sparkwright.lint.findings import Found, Verdict
from sparkwright.lint.model import Document, Engine, Launch
from sparkwright.lint.registry import launch_rule

WARN, BLOCK, NOTE = Verdict.WARN, Verdict.BLOCK, Verdict.NOTE


@launch_rule(BLOCK)
def gpt_oss_flashinfer(launch: Launch, doc: Document, ctx: Context) -> Iterator[Found]:
    """`--attention-backend FLASHINFER` with gpt-oss, before vLLM 0.28.

    gpt-oss has attention sinks; before 0.28.0 FlashInfer's kernels with sinks are for SM100 alone,
    so on GB10 the engine stops: "Selected backend … is not valid for this configuration". The fork
    for MXFP4 is the exception.

    Bad:
        vllm serve openai/gpt-oss-120b --attention-backend FLASHINFER

    Good:
        vllm serve openai/gpt-oss-120b --attention-backend TRITON_ATTN

    Source: vllm-project/vllm#40153
    """
    build = ctx.build(launch)
    option = ctx.option(launch, "attention-backend")
    if build is None or option is None or launch.engine is not Engine.VLLM or not build.stock:
        return
    if (
        (option.text or "").upper() == "FLASHINFER"
        and is_gpt_oss(launch, ctx)
        and build.version < (0, 28)
    ):
        yield Found(
            (option.value or option.spelled).at,
            f"{build.title} refuses FLASHINFER for gpt-oss on GB10: no kernels with sinks",
            "write --attention-backend TRITON_ATTN, or remove the flag",
            sees=flags.shown(option),
            verdict=flags.stops(launch, ctx),
        )


@launch_rule(BLOCK, WARN)
def gpt_oss_parser(launch: Launch, doc: Document, ctx: Context) -> Iterator[Found]:
    """A reasoning parser of another model for gpt-oss.

    The right one is the default. From 0.24 on the engine raises "Harmony requires
    GptOssReasoningParser"; before that a wrong name was not used at all.

    Bad:
        vllm serve openai/gpt-oss-120b --reasoning-parser qwen3

    Good:
        vllm serve openai/gpt-oss-120b --reasoning-parser openai_gptoss

    Source: vllm/parser/harmony.py (0.24.0); vllm/model_executor/models/config.py
    """
    build = ctx.build(launch)
    option = ctx.option(launch, "reasoning-parser")
    if build is None or option is None or option.text is None or not is_gpt_oss(launch, ctx):
        return
    other = option.text in set(build.facts.reasoning_parsers) - {"openai_gptoss"}
    if launch.engine is Engine.VLLM and other:
        late = build.version >= (0, 24)
        yield Found(
            (option.value or option.spelled).at,
            f"gpt-oss wants openai_gptoss, not {option.text}; {build.title} "
            + ("stops at it" if late else "does not use it"),
            "remove the flag: openai_gptoss is the default for gpt-oss",
            sees=flags.shown(option),
            verdict=BLOCK if late else WARN,
        )


@launch_rule(WARN)
def gpt_oss_old_marlin(launch: Launch, doc: Document, ctx: Context) -> Iterator[Found]:
    """gpt-oss on a stock vLLM before 0.23: the first token can be wrong.

    Marlin's MoE kernels came as PTX of sm_80 until 0.22.1 and gave wrong results on SM12x: answers
    with `content` and `reasoning` both null, HTTP 200. From 0.23.0 on there are kernels for SM12x.

    Bad:
        docker run vllm/vllm-openai:v0.22.1 --model openai/gpt-oss-120b

    Good:
        docker run vllm/vllm-openai:v0.33.0 --model openai/gpt-oss-120b

    Source: vllm-project/vllm#37030, #40923
    """
    build = ctx.build(launch)
    if build is None or launch.engine is not Engine.VLLM or not build.stock or build.assumed:
        return
    if build.version < (0, 23) and is_gpt_oss(launch, ctx):
        yield Found(
            launch.at,
            f"{build.title} computes gpt-oss wrongly on GB10 at times: answers without content",
            "use 0.23.0 or newer, and ask one real question after each start",
            sees=build.title,
        )


@launch_rule(NOTE, WARN)
def redundant_quantization(launch: Launch, doc: Document, ctx: Context) -> Iterator[Found]:
    """`--quantization` that the checkpoint declares itself.

    gpt-oss says mxfp4 in its own config, an FP8 checkpoint says fp8. The flag changes nothing
    today, and is a wrong order when the checkpoint changes.

    Bad:
        vllm serve openai/gpt-oss-120b --quantization mxfp4

    Good:
        vllm serve openai/gpt-oss-120b

    Source: vllm quantization/mxfp4.py; vllm/config/model.py
    """
    option = ctx.option(launch, "quantization")
    build, model = ctx.build(launch), ctx.model(launch)
    if option is None or build is None or not build.stock or launch.engine is not Engine.VLLM:
        return
    named = (model.shape if model else "").lower()
    fp8 = option.text == "fp8" and "fp8" in named
    mxfp4 = option.text in ("mxfp4", "gpt_oss_mxfp4") and is_gpt_oss(launch, ctx)
    if fp8 or mxfp4:
        yield Found(
            option.spelled.at,
            f"--quantization {option.text} is redundant: the checkpoint declares it",
            "remove the flag",
            sees=flags.shown(option),
            verdict=WARN if fp8 else NOTE,
        )
