"""Rules about flags that vLLM does not take: "unrecognized arguments", exit code 2."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sparkwright.lint import flags
from sparkwright.lint.context import Build, Context, version
from sparkwright.lint.findings import Found, Verdict
from sparkwright.lint.model import Document, Engine, Launch
from sparkwright.lint.options import Option
from sparkwright.lint.registry import launch_rule
from sparkwright.lint.settings import FORK_FLAGS, REPLACED_FLAGS

WARN, BLOCK = Verdict.WARN, Verdict.BLOCK
# Some flags are about deprecated things, and do not go themselves.
_GOING = re.compile(r"is deprecated|will be removed|Deprecated:|\(DEPRECATED\)")


def _missing(launch: Launch, ctx: Context) -> Iterator[tuple[Option, Build]]:
    """Long options of vLLM that the build does not have, abbreviations left out."""
    if launch.engine is not Engine.VLLM:
        return
    for option, build in flags.options(launch, ctx):
        missing = flags.is_long(option) and flags.known(option, build) is None
        if missing and len(flags.abbreviates(option, build)) != 1:
            yield option, build


@launch_rule(BLOCK, WARN)
def unknown_flag(launch: Launch, doc: Document, ctx: Context) -> Iterator[Found]:
    """A flag that no known release of vLLM has.

    argparse stops: `vllm serve: error: unrecognized arguments`, exit code 2; with Restart= in a
    unit that is a loop. In an image of somebody else's making it is a warning: the build in there
    is not known here.

    Bad:
        vllm serve /srv/m --max-modellen 8192

    Good:
        vllm serve /srv/m --max-model-len 8192

    Source: vllm/utils/argparse_utils.py; flags of 24 releases
    """
    for option, build in _missing(launch, ctx):
        if option.name in (*FORK_FLAGS, *REPLACED_FLAGS) or ctx.catalog.flag(option.name):
            continue
        close = flags.close(option.name, build)
        longer = flags.abbreviates(option, build)
        hint = (
            f"write one of {', '.join('--' + name for name in longer[:4])}"
            if longer
            else "remove it"
        )
        yield Found(
            option.spelled.at,
            f"--{option.name} is unknown to {build.title} and to every other release",
            f"did you mean --{close}?" if close else hint,
            sees=flags.shown(option),
            verdict=flags.stops(launch, ctx),
        )


@launch_rule(BLOCK, WARN)
def removed_flag(launch: Launch, doc: Document, ctx: Context) -> Iterator[Found]:
    """A flag that this release does not have any more, or not yet.

    argparse stops with exit code 2 before anything is loaded.

    Bad:
        vllm serve /srv/m --swap-space 16 --disable-log-requests

    Good:
        vllm serve /srv/m --disable-log-stats

    Source: vllm-project/vllm#27984; jdaln/dgx-spark-inference-stack#12; flags of 24 releases
    """
    for option, build in _missing(launch, ctx):
        span = ctx.catalog.flag(option.name)
        if span is None and option.name not in REPLACED_FLAGS:
            continue
        early = span is not None and span.first and version(span.first) > build.version
        words = f"stock vLLM has it {span.words}" if span else "it went before 0.13.0"
        fix = "use a release that has it, or remove it" if early else "remove it"
        yield Found(
            option.spelled.at,
            f"--{option.name} is not in {build.title}; {words}",
            REPLACED_FLAGS.get(option.name, fix),
            sees=flags.shown(option),
            verdict=flags.stops(launch, ctx),
        )


@launch_rule(BLOCK, WARN)
def fork_flag(launch: Launch, doc: Document, ctx: Context) -> Iterator[Found]:
    """A flag that only a fork of vLLM has, on a stock build.

    `--mxfp4-backend` and `--mxfp4-layers` belong to the build of `eugr build --exp-mxfp4`; eugr's
    regular wheels and every stock release stop at them.

    Bad:
        vllm serve openai/gpt-oss-120b --mxfp4-backend CUTLASS --mxfp4-layers moe,qkv,o,lm_head

    Good:
        vllm serve openai/gpt-oss-120b

    Source: eugr/spark-vllm-docker:recipes/openai-gpt-oss-120b.yaml; christopherowen/vllm@045293d8
    """
    for option, build in _missing(launch, ctx):
        if option.name in FORK_FLAGS:
            yield Found(
                option.spelled.at,
                f"--{option.name} exists only in {FORK_FLAGS[option.name]}, not in {build.title}",
                "remove it, or serve from that build",
                sees=flags.shown(option),
                verdict=flags.stops(launch, ctx),
            )


@launch_rule(WARN)
def abbreviated_flag(launch: Launch, doc: Document, ctx: Context) -> Iterator[Found]:
    """A flag that is only the beginning of a name.

    argparse takes it as long as one name begins like this; the next release may have two, and then
    it stops.

    Bad:
        vllm serve /srv/m --gpu-mem 0.8

    Good:
        vllm serve /srv/m --gpu-memory-utilization 0.8

    Source: python docs, argparse "Argument abbreviations (prefix matching)"
    """
    if launch.engine is not Engine.VLLM:
        return
    for option, build in flags.options(launch, ctx):
        if flags.is_long(option) and flags.known(option, build) is None:
            longer = flags.abbreviates(option, build)
            if len(longer) == 1:
                yield Found(
                    option.spelled.at,
                    f"--{option.name} is an abbreviation, and works only while it is unique",
                    f"write --{longer[0]}",
                    sees=flags.shown(option),
                )


@launch_rule(WARN)
def deprecated_flag(launch: Launch, doc: Document, ctx: Context) -> Iterator[Found]:
    """A flag that this release still takes and says will go.

    Bad:
        vllm serve /srv/m --disable-cascade-attn

    Good:
        vllm serve /srv/m

    Source: the engine's own help text
    """
    for option, build in flags.options(launch, ctx):
        told = build.facts.deprecated.get(f"--{option.name}")
        if told and _GOING.search(told) and flags.known(option, build):
            yield Found(
                option.spelled.at,
                f"--{option.name} is deprecated in {build.title}",
                f"remove it, or do as vLLM says: {told[:200]}",
                sees=flags.shown(option),
            )


@launch_rule(BLOCK)
def single_dash_option(launch: Launch, doc: Document, ctx: Context) -> Iterator[Found]:
    """A long option with one dash.

    `-port` is neither `--port` nor a short option: llama-server stops with "invalid argument", and
    vLLM's argparse with "unrecognized arguments". In a unit that is a restart loop.

    Bad:
        llama-server -m /srv/m.gguf -port 8080

    Good:
        llama-server -m /srv/m.gguf --port 8080

    Source: llama.cpp common/arg.cpp; python docs, argparse
    """
    for option, build in flags.options(launch, ctx):
        if flags.is_long(option) or flags.is_short(option, launch):
            continue
        text = option.spelled.text or ""
        exists = option.name in build.facts.flags
        close = option.name if exists else flags.close(option.name, build)
        if len(option.name) > 1 or launch.engine is Engine.LLAMA:
            yield Found(
                option.spelled.at,
                f"{text.split('=')[0]} is no option of {build.title}",
                f"write --{close}" if close else "write the option's long name with two dashes",
                sees=flags.shown(option),
                verdict=flags.stops(launch, ctx),
            )
