"""Rules about how a model is served: parallelism, context, graphs, who can reach it."""

from __future__ import annotations

from collections.abc import Iterator

from sparkwright.lint import flags
from sparkwright.lint.context import Context
from sparkwright.lint.findings import Found, Verdict
from sparkwright.lint.model import Document, Engine, Kind, Launch
from sparkwright.lint.registry import launch_rule

WARN, BLOCK, NOTE = Verdict.WARN, Verdict.BLOCK, Verdict.NOTE


@launch_rule(BLOCK, WARN)
def parallel_gpus(launch: Launch, doc: Document, ctx: Context) -> Iterator[Found]:
    """More tensor or pipeline ranks than the machine has GPUs.

    A Spark has one GPU. Two ranks need a second machine and say so (`--nnodes`, ray): without that
    the engine stops, "World size (2) is larger than the number of available GPUs (1)". In a recipe
    whose runner sets the number by the machines it has, nothing is said.

    Bad:
        vllm serve openai/gpt-oss-120b --tensor-parallel-size 2

    Good:
        vllm serve openai/gpt-oss-120b

    Source: mark-ramsey-ri/vllm-dgx-spark#8; vllm/config/parallel.py
    """
    if launch.engine is not Engine.VLLM or launch.cluster or doc.kind is Kind.COMMAND_RECIPE:
        return
    ranks = 1.0
    for name in ("tensor-parallel-size", "pipeline-parallel-size"):
        ranks *= ctx.number(launch, name) or 1
    option = ctx.option(launch, "tensor-parallel-size") or ctx.option(
        launch, "pipeline-parallel-size"
    )
    overridable = option is not None and option.value is not None and option.value.unless
    if option is not None and ranks > ctx.gpus:
        yield Found(
            (option.value or option.spelled).at,
            f"{ranks:g} ranks and {ctx.gpus} GPU in the machine: it does not start",
            "remove the flag, or add --nnodes and --node-rank for a second Spark (--gpus says"
            " how many GPUs there are)",
            sees=flags.shown(option),
            verdict=WARN if overridable or "guide" in doc.facts else BLOCK,
        )


@launch_rule(BLOCK, WARN)
def context_length(launch: Launch, doc: Document, ctx: Context) -> Iterator[Found]:
    """A context longer than the model's config allows.

    Needs `--model-config config.json`. vLLM stops: "User-specified max_model_len … is greater than
    the derived max_model_len", unless VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 lets it answer noise.

    Bad:
        vllm serve /srv/m --max-model-len 262144

    Good:
        vllm serve /srv/m --max-model-len 131072

    Source: vllm/config/model.py _get_and_verify_max_len
    """
    limit = ctx.context_limit()
    option = ctx.option(launch, "max-model-len", "ctx-size")
    wanted = ctx.number(launch, "max-model-len", "ctx-size")
    if limit is None or option is None or wanted is None or wanted <= limit:
        return
    allowed = launch.get("VLLM_ALLOW_LONG_MAX_MODEL_LEN")
    soft = launch.engine is Engine.LLAMA or (allowed is not None and allowed.value == "1")
    yield Found(
        (option.value or option.spelled).at,
        f"a context of {wanted:g} tokens, and the model was made for {limit:g}",
        f"write --{option.name} {limit:g} or less",
        sees=flags.shown(option),
        verdict=WARN if soft else BLOCK,
    )


@launch_rule(WARN)
def enforce_eager(launch: Launch, doc: Document, ctx: Context) -> Iterator[Found]:
    """`--enforce-eager` switches CUDA graphs off.

    Decoding gets slower: gpt-oss-120b on GB10 went from 59 to 26 tokens a second in the one
    measurement we know. Some needed it to get through the start of one release.

    Bad:
        vllm serve openai/gpt-oss-120b --enforce-eager

    Good:
        vllm serve openai/gpt-oss-120b

    Source: vllm docs/configuration/optimization.md; vllm-project/vllm#43969
    """
    option = ctx.option(launch, "enforce-eager")
    if option is not None and launch.engine is Engine.VLLM and not option.glued:
        yield Found(
            option.spelled.at,
            "--enforce-eager turns CUDA graphs off: slower answers",
            "remove it; keep it only with a measurement or an error beside it",
            sees=flags.shown(option),
        )


@launch_rule(WARN)
def unused_tool_parser(launch: Launch, doc: Document, ctx: Context) -> Iterator[Found]:
    """`--tool-call-parser` without `--enable-auto-tool-choice`.

    The parser's name is not even looked at then: calls come back as text.

    Bad:
        vllm serve openai/gpt-oss-120b --tool-call-parser openai

    Good:
        vllm serve openai/gpt-oss-120b --tool-call-parser openai --enable-auto-tool-choice

    Source: vllm entrypoints/openai/cli_args.py validate_parsed_serve_args
    """
    option = ctx.option(launch, "tool-call-parser")
    if launch.engine is not Engine.VLLM or option is None or ctx.open_ended(launch):
        return
    if ctx.option(launch, "enable-auto-tool-choice") is None:
        yield Found(
            option.spelled.at,
            "--tool-call-parser is not used without --enable-auto-tool-choice",
            "add --enable-auto-tool-choice, or remove the parser",
            sees=flags.shown(option),
        )


@launch_rule(WARN)
def open_to_network(launch: Launch, doc: Document, ctx: Context) -> Iterator[Found]:
    """A server on all interfaces without an API key.

    Everybody on the network can use the model, and llama-server's own pages with it. In a
    container the address inside says nothing, so it is not judged.

    Bad:
        llama-server -m /srv/m.gguf --host 0.0.0.0

    Good:
        llama-server -m /srv/m.gguf --host 127.0.0.1

    Source: llama.cpp tools/server/README.md; vllm docs, "Security"
    """
    host = ctx.option(launch, "host")
    if host is None or host.text not in ("0.0.0.0", "::", "*") or launch.image is not None:  # noqa: S104 - looked for
        return
    if launch.engine not in (Engine.VLLM, Engine.LLAMA) or launch.cluster:
        return
    key = ctx.option(launch, "api-key", "api-key-file") or launch.get("VLLM_API_KEY")
    if key is None and launch.get("LLAMA_API_KEY") is None and not launch.env_unknown:
        yield Found(
            (host.value or host.spelled).at,
            f"it listens on all interfaces ({host.text}) without an API key",
            "write --host 127.0.0.1, or add a key (--api-key-file; vLLM: VLLM_API_KEY in a file"
            " that only root reads)",
            sees=flags.shown(host),
        )


@launch_rule(WARN)
def key_in_command(launch: Launch, doc: Document, ctx: Context) -> Iterator[Found]:
    """An API key or token in a command line.

    Every user of the machine reads it in the list of processes.

    Bad:
        vllm serve /srv/m --api-key s3cret

    Good:
        llama-server -m /srv/m.gguf --api-key-file /etc/llama-server/key

    Source: proc(5), /proc/pid/cmdline
    """
    option = ctx.option(launch, "api-key", "hf-token")
    if option is not None and launch.engine in flags.JUDGED and option.value is not None:
        yield Found(
            option.spelled.at,
            f"--{option.name} in a command line is readable by every user of the machine",
            "use --api-key-file, or VLLM_API_KEY from an EnvironmentFile with mode 0600",
            sees=f"--{option.name} …",
        )
