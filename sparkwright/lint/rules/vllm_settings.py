"""Rules about variables that vLLM knows, and that hurt on a Spark."""

from __future__ import annotations

from collections.abc import Iterator

from sparkwright.lint.context import Context
from sparkwright.lint.findings import Found, Verdict
from sparkwright.lint.model import Document, Engine, Launch
from sparkwright.lint.registry import file_rule, launch_rule
from sparkwright.lint.variables import of_vllm

WARN, BLOCK, NOTE = Verdict.WARN, Verdict.BLOCK, Verdict.NOTE
_ON = frozenset({"1", "true", "yes", "on", "TRUE", "True"})


@file_rule(BLOCK)
def marlin_fp8_activations(doc: Document, ctx: Context) -> Iterator[Found]:
    """`VLLM_MARLIN_INPUT_DTYPE=fp8` gives broken text on GB10.

    Every release knows the variable; with fp8 activations the answers of an INT4 MoE repeat
    themselves at temperature 0 on sm_121.

    Bad:
        VLLM_MARLIN_INPUT_DTYPE=fp8

    Good:
        VLLM_MARLIN_INPUT_DTYPE=int8

    Source: vllm-project/vllm#49546
    """
    for item, _, _ in of_vllm(doc, ctx):
        if item.name == "VLLM_MARLIN_INPUT_DTYPE" and (item.value or "").lower() == "fp8":
            yield Found(
                item.at,
                "VLLM_MARLIN_INPUT_DTYPE=fp8 corrupts output on GB10 (sm_121)",
                "remove it; prove another value with an acceptance question at temperature 0",
                sees=item.raw,
            )


@file_rule(WARN)
def long_model_len(doc: Document, ctx: Context) -> Iterator[Found]:
    """`VLLM_ALLOW_LONG_MAX_MODEL_LEN=1` lets a context be longer than the model was made for.

    vLLM's own check against the model's config is off: beyond it positions are wrong and answers
    turn to noise, and nothing says so.

    Bad:
        VLLM_ALLOW_LONG_MAX_MODEL_LEN=1

    Good:
        --max-model-len 131072

    Source: vllm/envs.py; vllm-project/vllm docs, "Environment Variables"
    """
    for item, _, _ in of_vllm(doc, ctx):
        if item.name == "VLLM_ALLOW_LONG_MAX_MODEL_LEN" and (item.value or "") in _ON:
            yield Found(
                item.at,
                "VLLM_ALLOW_LONG_MAX_MODEL_LEN permits lengths beyond the model's config",
                "remove it and write a --max-model-len that the model has",
                sees=item.raw,
            )


@file_rule(WARN)
def weaker_memory_check(doc: Document, ctx: Context) -> Iterator[Found]:
    """`VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0` leaves CUDA graphs out of the memory budget.

    The engine then takes more than its share after the check, from memory that the whole machine
    uses on GB10.

    Bad:
        VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0

    Good:
        --gpu-memory-utilization 0.8

    Source: gpustack/gpustack#5779; vllm/envs.py
    """
    for item, _, _ in of_vllm(doc, ctx):
        name = "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS"
        if item.name == name and item.value in ("0", "false", "False"):
            yield Found(
                item.at,
                f"{name}=0 weakens the check that keeps the machine alive",
                "remove it",
                sees=item.raw,
            )


@file_rule(WARN)
def internal_port(doc: Document, ctx: Context) -> Iterator[Found]:
    """`VLLM_PORT` is the engine's internal port, not the API's.

    With the API's own number in it the two collide; with another one the API still listens on
    8000.

    Bad:
        VLLM_PORT=8000 vllm serve /srv/m

    Good:
        vllm serve /srv/m --port 8000

    Source: vllm docs, "Environment Variables": VLLM_PORT and VLLM_HOST_IP are for internal usage
    """
    for item, launch, _ in of_vllm(doc, ctx):
        ports = ctx.option(launch, "port") if launch else None
        if item.name == "VLLM_PORT" and (ports is None or ports.text == item.value):
            yield Found(
                item.at,
                "VLLM_PORT is for the engine's own processes; the API does not listen there",
                f"remove it and write --port {item.value or '8000'}",
                sees=item.raw,
            )


@launch_rule(NOTE)
def harmony_system_role(launch: Launch, doc: Document, ctx: Context) -> Iterator[Found]:
    """`VLLM_GPT_OSS_HARMONY_SYSTEM_INSTRUCTIONS=1` moves the system message, from 0.23 on only.

    It puts a system message into harmony's system block instead of the developer block. In 0.22.1
    and before it concerns the Responses API alone.

    Bad:
        VLLM_GPT_OSS_HARMONY_SYSTEM_INSTRUCTIONS=1 vllm serve openai/gpt-oss-120b

    Good:
        vllm serve openai/gpt-oss-120b

    Source: vllm-project/vllm#44330, #33210
    """
    item = launch.get("VLLM_GPT_OSS_HARMONY_SYSTEM_INSTRUCTIONS")
    build = ctx.build(launch)
    if launch.engine is Engine.VLLM and build and item and (item.value or "") in _ON:
        late = build.version >= (0, 23)
        yield Found(
            item.at,
            "system messages go to harmony's system block"
            if late
            else f"{build.title} heeds it for the Responses API only",
            "remove it unless an acceptance question shows that you need it",
            sees=item.raw,
        )
