"""What else is in the one pool of memory when an engine starts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from sparkwright.lint.context import Context
from sparkwright.lint.findings import Found, Verdict
from sparkwright.lint.model import GPU_ENGINES, Command, Document, Engine, Kind, Launch
from sparkwright.lint.registry import file_rule, files_rule
from sparkwright.lint.rules.memory_shares import HIGHEST
from sparkwright.lint.rules.systemd_reading import Unit, whole_units


@files_rule(Verdict.WARN)
def high_share_beside(docs: Sequence[Document], ctx: Context) -> Iterator[Found]:
    """A share between 0.80 and 0.88 beside a second engine or a desktop session.

    Alone on the machine it works. llama-server, Ollama and a desktop take their memory from the
    same pool.

    Bad:
        one unit with --gpu-memory-utilization 0.85, another with llama-server, both enabled

    Good:
        --gpu-memory-utilization 0.6 in the first

    Source: vllm-project/recipes#632; vLLM's article on Spark
    """
    enabled = [unit for unit in whole_units(docs) if unit.all("WantedBy", "Install")]
    for unit in enabled:
        for launch in unit.launches:
            option = ctx.option(launch, "gpu-memory-utilization")
            share = ctx.number(launch, "gpu-memory-utilization")
            if launch.engine is not Engine.VLLM or option is None or option.value is None:
                continue
            beside = _beside(unit, enabled)
            if beside and share is not None and 0.80 < share <= HIGHEST:
                yield Found(
                    option.value.at, f"{share:g} of the memory, beside {beside}",
                    "lower it by what the other needs, or let one exclude the other (Conflicts=, "
                    "After=)", sees=option.text or "",
                )  # fmt: skip


def _beside(unit: Unit, enabled: Sequence[Unit]) -> str:
    if any("graphical.target" in d.value for d in unit.all("WantedBy", "Install")):
        return "a desktop session (graphical.target)"
    for other in enabled:
        apart = _excludes(unit, other) or _excludes(other, unit)
        engines: list[Launch] = [x for x in other.launches if x.engine in GPU_ENGINES]
        if other is not unit and engines and not apart:
            return f"{engines[0].engine.value} of {other.name}"
    return ""


def _excludes(unit: Unit, other: Unit) -> bool:
    return any(other.name in d.value.split() for d in unit.all("Conflicts", "Unit"))


@file_rule(Verdict.NOTE)
def page_cache(doc: Document, ctx: Context) -> Iterator[Found]:
    """A model that was just copied still lies in the page cache when the engine starts.

    On GB10 the cache counts as used memory for CUDA: loads died at 73 to 97 % right after an
    rsync of 130 GB.

    Bad:
        rsync -a nas:/models/m/ /srv/m/
        vllm serve /srv/m

    Good:
        rsync -a nas:/models/m/ /srv/m/
        sync; echo 3 | sudo tee /proc/sys/vm/drop_caches
        vllm serve /srv/m

    Source: MiaAI-Lab/Qwen3.8-Flash-Next-Dual-DGX-Sparks#35, unslothai/unsloth#10705
    """
    copied: Command | None = None
    starts = {launch.at.line for launch in doc.launches if launch.engine is Engine.VLLM}
    for command in doc.commands if doc.kind is Kind.SCRIPT else ():
        text = " ".join(word.shape for word in command.argv)
        targets = " ".join(redirect.target.shape for redirect in command.redirects)
        if "drop_caches" in f"{text} {targets}" or "vmtouch" in text:
            copied = None
        elif command.name == "rsync" or re.match(r"(hf|huggingface-cli) download\b", text):
            copied = command
        elif copied is not None and command.at.line in starts:
            yield Found(
                command.at, f"the copy of line {copied.at.line} still fills the page cache",
                "before it: sync; echo 3 | sudo tee /proc/sys/vm/drop_caches",
            )  # fmt: skip
            copied = None
