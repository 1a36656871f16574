"""Rules about VLLM_* variables: unknown, removed, deprecated, wrong values."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from sparkwright.lint.context import Build, Context, is_gpt_oss
from sparkwright.lint.findings import Found, Verdict
from sparkwright.lint.model import Assignment, Document, Launch
from sparkwright.lint.registry import file_rule
from sparkwright.lint.settings import DROP, REPLACED, fork_of
from sparkwright.lint.variables import of_vllm, used_by_file

WARN, BLOCK, NOTE = Verdict.WARN, Verdict.BLOCK, Verdict.NOTE


def _ours(ctx: Context, launch: Launch | None) -> Verdict:
    """In files of our own making, or where vLLM is told to fail, an unknown name is an error."""
    if launch is None:
        return BLOCK if ctx.own else WARN
    strict = ctx.own or ctx.option(launch, "fail-on-environ-validation") is not None
    return BLOCK if strict and ctx.certain(launch) else WARN


def _close(name: str, build: Build) -> str:
    found = difflib.get_close_matches(name, build.facts.env, n=1, cutoff=0.75)
    return f"did you mean {found[0]}? else remove it" if found else "remove it; nothing reads it"


@file_rule(WARN, BLOCK, NOTE)
def unknown_variable(doc: Document, ctx: Context) -> Iterator[Found]:
    """A `VLLM_…` variable that no release of vLLM has.

    vLLM logs one warning line and goes on without the setting; before 0.17.0 it said nothing at
    all. Names that a container's start script or a Kubernetes runner would read (`VLLM_SERVE_ARGS`)
    do nothing for `vllm serve` itself. With `--fail-on-environ-validation`, and in units of our
    own, it is an error. A name that the same file uses itself is only noted.

    Bad:
        VLLM_SERVE_ARGS="--max-model-len 8192"

    Good:
        ExecStart=/opt/vllm/bin/vllm serve /srv/m --max-model-len 8192

    Source: vllm/envs.py validate_environ (0.17.0); community-scripts/ProxmoxVED#2047
    """
    for item, launch, build in of_vllm(doc, ctx):
        if item.name in build.facts.env or ctx.catalog.variable(item.name) or fork_of(item.name):
            continue
        if item.name in DROP or item.name in REPLACED:
            continue
        verdict = NOTE if used_by_file(doc, item) else _ours(ctx, launch)
        yield Found(
            item.at,
            f"{item.name} is unknown to {build.title} and to every other release",
            _close(item.name, build),
            sees=f"{item.raw}: a warning in the log, and the setting does nothing",
            verdict=verdict,
        )


@file_rule(WARN, BLOCK)
def removed_variable(doc: Document, ctx: Context) -> Iterator[Found]:
    """A `VLLM_…` variable that this release does not have, but another one does.

    Backends moved from variables to flags (0.22 to 0.24): the old names are a warning in the log
    and the engine chooses by itself. What was right for one release is stale for the next.

    Bad:
        VLLM_ATTENTION_BACKEND=TRITON_ATTN

    Good:
        vllm serve /srv/m --attention-backend TRITON_ATTN

    Source: vllm-project/vllm#39538, #43148, #50292; vllm.envs of 24 releases
    """
    for item, launch, build in of_vllm(doc, ctx):
        span = ctx.catalog.variable(item.name)
        gone = span is None and (item.name in DROP or item.name in REPLACED)
        if item.name in build.facts.env or (span is None and not gone):
            continue
        words = f"stock vLLM has it {span.words}" if span else "it went before 0.13.0"
        yield Found(
            item.at,
            f"{item.name} is not in {build.title}; {words}",
            _instead(item, launch, build, ctx),
            sees=f"{item.raw}: a warning in the log, and the setting does nothing",
            verdict=_ours(ctx, launch),
        )


def _instead(item: Assignment, launch: Launch | None, build: Build, ctx: Context) -> str:
    gpt_oss = launch is not None and is_gpt_oss(launch, ctx)
    if item.name in DROP:
        return "remove it; the engine picks the kernels for GB10 by itself"
    if item.name not in REPLACED:
        span = ctx.catalog.variable(item.name)
        return f"remove it; {span.hint}" if span and span.hint else "remove it"
    flag, text = REPLACED[item.name]
    value = item.value or "<backend>"
    if item.name == "VLLM_ATTENTION_BACKEND" and gpt_oss and "FLASHINFER" in value.upper():
        return "remove it, or --attention-backend TRITON_ATTN (FLASHINFER refuses gpt-oss < 0.28)"
    if item.value == "0":
        return f"remove it, or choose with {text.split()[0]}"
    if flag not in build.facts.flags:
        return f"remove it; {build.title} has no --{flag} either"
    return f"write {text.format(value=value)} instead"


@file_rule(WARN, BLOCK)
def fork_variable(doc: Document, ctx: Context) -> Iterator[Found]:
    """A variable that only a fork of vLLM reads, on a stock build.

    Stock vLLM warns and takes its own choice: for gpt-oss on GB10 Marlin with Triton attention,
    where the recipe promised CUTLASS.

    Bad:
        VLLM_MXFP4_BACKEND=CUTLASS

    Good:
        --moe-backend marlin

    Source: spark-arena/recipe-registry#17; gpustack/gpustack#5779
    """
    for item, launch, build in of_vllm(doc, ctx):
        if item.name in build.facts.env or ctx.catalog.variable(item.name):
            continue
        who = fork_of(item.name)
        if who:
            fix = "use the build it belongs to, or remove it"
            if item.name == "VLLM_MXFP4_BACKEND" and (item.value or "").lower() == "marlin":
                fix += "; stock: --moe-backend marlin"
            yield Found(
                item.at,
                f"{item.name} exists only in {who}; {build.title} ignores it",
                fix,
                sees=f"{item.raw}: a warning in the log, and the setting does nothing",
                verdict=_ours(ctx, launch),
            )


@file_rule(WARN)
def deprecated_variable(doc: Document, ctx: Context) -> Iterator[Found]:
    """A variable that this release still reads and a later one will not.

    Bad:
        VLLM_NVFP4_GEMM_BACKEND=marlin

    Good:
        vllm serve /srv/m --linear-backend marlin

    Source: vllm/envs.py deprecated_env (0.22.1)
    """
    for item, launch, build in of_vllm(doc, ctx):
        told = build.facts.deprecated.get(item.name)
        if told:
            yield Found(
                item.at,
                f"{item.name} is deprecated in {build.title}: it {told}",
                _instead(item, launch, build, ctx),
                sees=item.raw,
            )


@file_rule(BLOCK)
def variable_value(doc: Document, ctx: Context) -> Iterator[Found]:
    """A value that this release does not take for one of its variables.

    vLLM reads it when the setting is first asked for, often after minutes of loading, and dies
    with `ValueError: Invalid value …`.

    Bad:
        VLLM_NVFP4_GEMM_BACKEND=marlin-fp4

    Good:
        VLLM_NVFP4_GEMM_BACKEND=marlin

    Source: vllm/envs.py env_with_choices
    """
    for item, _, build in of_vllm(doc, ctx):
        allowed = build.facts.env.get(item.name)
        if not allowed or not item.value:
            continue
        parts = {part.strip().lower() for part in item.value.split(",")}
        if not parts <= {value.lower() for value in allowed}:
            close = difflib.get_close_matches(item.value, allowed, n=1)
            yield Found(
                item.at,
                f"{item.name} takes {', '.join(allowed)} in {build.title}",
                f"write {close[0]}" if close else f"write one of {', '.join(allowed)}",
                sees=item.value,
            )
