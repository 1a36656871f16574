"""Rules about llama-server: flags that went, defaults that hurt on a Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sparkwright.lint import flags
from sparkwright.lint.context import Context
from sparkwright.lint.findings import Found, Verdict
from sparkwright.lint.model import Document, Engine, Kind, Launch
from sparkwright.lint.registry import launch_rule

WARN, BLOCK, NOTE = Verdict.WARN, Verdict.BLOCK, Verdict.NOTE
# Flag -> what to write now. Gone before b11312; llama.cpp#20834 deprecated the first three, b10875
# removed them (thomas9120/LLama-GUI#361).
_GONE: Final[dict[str, str]] = {
    "no-mmap": "write --load-mode none",
    "mmap": "write --load-mode mmap",
    "mlock": "write --load-mode mlock",
    "no-direct-io": "write --load-mode none",
    "direct-io": "write --load-mode dio",
    "log-format": "write --log-jsonl, or remove it",
    "log-enable": "remove it",
    "system-prompt-file": "remove it; send a system message",
    "chat-template-jinja": "write --jinja",
    "samplers-seq": "write --sampler-seq",
    "draft": "write --spec-draft-n-max",
    "draft-n": "write --spec-draft-n-max",
    "draft-max": "write --spec-draft-n-max",
    "draft-min": "write --spec-draft-n-min",
    "draft-n-min": "write --spec-draft-n-min",
    "spec-ngram-size-n": "write --spec-ngram-mod-n-match",
    "spec-ngram-size-m": "write --spec-ngram-simple-size-m",
    "spec-ngram-min-hits": "write --spec-ngram-simple-min-hits",
}


@launch_rule(BLOCK, WARN)
def llama_flag(launch: Launch, doc: Document, ctx: Context) -> Iterator[Found]:
    """A flag that this llama-server does not have.

    It stops with "error: invalid argument" before it loads. `--no-mmap`, which every guide for the
    Spark recommends, is such a flag since b10875: `--load-mode none` is its new name. In a preset
    file an unknown key makes the router skip that model.

    Bad:
        llama-server -m /srv/m.gguf --no-mmap

    Good:
        llama-server -m /srv/m.gguf --load-mode none

    Source: thomas9120/LLama-GUI#361; ggml-org/llama.cpp#20834; llama-server --help of b11312
    """
    if launch.engine is not Engine.LLAMA:
        return
    for option, build in flags.options(launch, ctx):
        name = option.name
        if not flags.is_long(option) or name in build.facts.flags or name in ("help", "version"):
            continue
        close = flags.close(name, build)
        other = f"did you mean --{close}?" if close else "remove it"
        yield Found(
            option.spelled.at,
            f"--{name} is no option of {build.title}",
            _GONE.get(name, other),
            sees=flags.shown(option),
            verdict=flags.stops(launch, ctx) if doc.kind is not Kind.PRESETS else WARN,
        )


@launch_rule(WARN)
def llama_slow_load(launch: Launch, doc: Document, ctx: Context) -> Iterator[Found]:
    """A model is mapped into memory: loading is ten times slower on a Spark.

    GB10 reads a mapped file page by page: minutes instead of seconds. Builds from b10875 on want
    `--load-mode none`, older ones `--no-mmap`.

    Bad:
        llama-server -m /srv/m.gguf

    Good:
        llama-server -m /srv/m.gguf --load-mode none

    Source: lmstudio-ai/lmstudio-bug-tracker#366; ggml-org/llama.cpp#27742
    """
    build = ctx.build(launch)
    model = ctx.option(launch, "model", "hf-repo")
    if (
        launch.engine is not Engine.LLAMA
        or build is None
        or model is None
        or ctx.open_ended(launch)
    ):
        return
    mode = ctx.option(launch, "load-mode", "no-mmap", "mlock", "direct-io")
    if mode is None and launch.get("LLAMA_ARG_LOAD_MODE") is None:
        new = "load-mode" in build.facts.flags
        if not new and build.facts.flags.get("no-mmap") is None:
            return
        yield Found(
            launch.at,
            "the model is mapped (mmap): loading takes minutes on a Spark",
            f"add {'--load-mode none' if new else '--no-mmap'}",
            sees="--load-mode auto, the default" if new else "mmap, the default",
        )


@launch_rule(WARN)
def router_models_max(launch: Launch, doc: Document, ctx: Context) -> Iterator[Found]:
    """A router without `--models-max` keeps up to four models in memory.

    Four large models do not fit into 128 GB that the whole machine shares.

    Bad:
        llama-server --models-preset /etc/llama-server/models.ini

    Good:
        llama-server --models-preset /etc/llama-server/models.ini --models-max 1

    Source: jschmied/dgx-spark-setup-guide:06-systemd-service; llama-server --help (default: 4)
    """
    router = ctx.option(launch, "models-preset", "models-dir")
    if launch.engine is not Engine.LLAMA or router is None or ctx.open_ended(launch):
        return
    if ctx.option(launch, "models-max") is None and launch.get("LLAMA_ARG_MODELS_MAX") is None:
        yield Found(
            router.spelled.at,
            "the router loads up to 4 models at once (its default)",
            "add --models-max 1",
            sees=flags.shown(router),
        )
