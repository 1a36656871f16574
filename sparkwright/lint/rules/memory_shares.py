"""Shares of the one pool of memory that GPU, CPU and page cache of GB10 have in common."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from sparkwright.lint.context import Context
from sparkwright.lint.findings import Found, Verdict
from sparkwright.lint.model import At, Document, Engine, Kind, Launch
from sparkwright.lint.registry import files_rule, launch_rule
from sparkwright.lint.rules.systemd_reading import whole_units

# A Spark has 119.7 to 121.7 GiB (/proc/meminfo MemTotal); 10 to 15 GiB of it are the system's.
POOL_GIB: Final = 121
# The largest share that leaves the system its part; above 0.80 nothing else may run.
HIGHEST: Final = 0.88
_ALONE: Final = 0.80
# "gpu-mem" too: abbreviations work, and have a rule of their own.
_GIVEN: Final = ("gpu-mem", "kv-cache-memory-bytes", "help")


@dataclass(frozen=True)
class _Share:
    """One vLLM that is started with the others of its file, and its fraction."""

    name: str
    fraction: float
    at: At
    beside: frozenset[str]
    text: str


@launch_rule(Verdict.BLOCK, Verdict.WARN)
def utilization_missing(launch: Launch, doc: Document, ctx: Context) -> Iterator[Found]:
    """`vllm serve` without --gpu-memory-utilization takes 0.9 and more of the whole machine.

    The default (0.92 in vLLM 0.33.0, 0.9 before) is meant for a GPU with memory of its own. Of
    GB10's one pool it leaves less than 12 GiB to everything else: the start is refused, since so
    much is not free, or it succeeds and the machine freezes later. So it is a BLOCK, as the same
    number is when it is written down. In guides, which are mostly for other machines, in a
    Dockerfile, whose words others replace, and in images whose build is not known it is a WARN.

    Bad:
        vllm serve /srv/m

    Good:
        vllm serve /srv/m --gpu-memory-utilization 0.8

    Source: vllm-project/recipes#632; vllm/config/cache.py, v0.33.0
    """
    parts = (Kind.VLLM_CONFIG, Kind.GUIDE_RECIPE)  # others add the rest of the words
    if launch.engine is not Engine.VLLM or ctx.open_ended(launch) or doc.kind in parts:
        return
    if not any(option.name.startswith(_GIVEN) for option in ctx.options(launch)):
        softer = _elsewhere(launch, doc) or doc.kind is Kind.DOCKERFILE or not ctx.certain(launch)
        yield Found(
            launch.at, "no --gpu-memory-utilization: the default is for GPUs with own memory",
            "add --gpu-memory-utilization 0.8", sees="0.92 in vLLM 0.33.0",
            verdict=Verdict.WARN if softer else Verdict.BLOCK,
        )  # fmt: skip


def _elsewhere(launch: Launch, doc: Document) -> bool:
    """Whether a guide for many machines says it, not in its part about a Spark."""
    guide = doc.kind is Kind.GUIDE_RECIPE or "guide" in doc.facts
    return guide and re.search(r"gb10|spark", launch.where) is None


@launch_rule(Verdict.BLOCK, Verdict.WARN)
def utilization_too_high(launch: Launch, doc: Document, ctx: Context) -> Iterator[Found]:
    """--gpu-memory-utilization above 0.88 leaves GB10's system no memory.

    It is a share of all the memory there is. The system, the page cache and the engine's own
    processes need 10 to 15 GiB of 121: without them the machine freezes, with no OOM kill. Guides
    and vLLM's own recipes are mostly for machines whose GPU has memory of its own: a WARN there,
    unless that part is for a Spark.

    Bad:
        vllm serve /srv/m --gpu-memory-utilization 0.95

    Good:
        vllm serve /srv/m --gpu-memory-utilization 0.8

    Source: vllm-project/recipes#632; NVIDIA/open-gpu-kernel-modules#1358
    """
    option = ctx.option(launch, "gpu-memory-utilization")
    fraction = ctx.number(launch, "gpu-memory-utilization")
    if launch.engine is not Engine.VLLM or option is None or option.value is None:
        return
    if fraction is not None and HIGHEST < fraction <= 1:
        left = POOL_GIB * (1 - fraction)
        yield Found(
            option.value.at, f"{fraction:g} of one pool leaves {left:.0f} GiB to the machine",
            "write --gpu-memory-utilization 0.8 (at most 0.88)", sees=option.text or "",
            verdict=Verdict.WARN if _elsewhere(launch, doc) else Verdict.BLOCK,
        )  # fmt: skip


@files_rule(Verdict.BLOCK, Verdict.WARN)
def memory_sum(docs: Sequence[Document], ctx: Context) -> Iterator[Found]:
    """Services that start together and take more than the machine has.

    Each vLLM looks only at its own share (--gpu-memory-utilization is per instance). At boot both
    pass the check, together they exceed the pool, and the machine freezes.

    Bad:
        one unit with --gpu-memory-utilization 0.5, another with 0.45, both enabled

    Good:
        0.4 and 0.4, or Conflicts= and After= between them

    Source: vllm/config/cache.py; NVIDIA/xr-ai#462; al-engr.com
    """
    for group in (list(_of_units(docs, ctx)), *(list(_of_compose(d, ctx)) for d in docs)):
        together = _largest(group)
        total = sum(share.fraction for share in together)
        if len(together) < 2 or total <= _ALONE:
            continue
        last = together[-1]
        names = ", ".join(f"{share.name} {share.fraction:g}" for share in together)
        yield Found(
            last.at, f"together they take {total:g} of the memory ({names})",
            f"lower them to {_ALONE:g} in sum, or let one exclude the other (Conflicts=, After=)",
            sees=last.text, verdict=Verdict.BLOCK if total > HIGHEST else Verdict.WARN,
        )  # fmt: skip


def _share(name: str, launch: Launch, ctx: Context, beside: frozenset[str]) -> Iterator[_Share]:
    option = ctx.option(launch, "gpu-memory-utilization")
    fraction = ctx.number(launch, "gpu-memory-utilization")
    if launch.engine is Engine.VLLM and option and option.value and fraction and fraction <= 1:
        yield _Share(name, fraction, option.value.at, beside, option.text or "")


def _of_units(docs: Sequence[Document], ctx: Context) -> Iterator[_Share]:
    """Enabled at boot: units with WantedBy=; the names are those that they exclude."""
    for unit in whole_units(docs):
        away = frozenset(n for d in unit.all("Conflicts", "Unit") for n in d.value.split())
        if unit.all("WantedBy", "Install"):
            for launch in unit.launches:
                yield from _share(unit.name, launch, ctx, away)


def _of_compose(doc: Document, ctx: Context) -> Iterator[_Share]:
    for launch in doc.launches if doc.kind is Kind.COMPOSE else ():
        apart = any(key.path.startswith(f"services/{launch.where}/profiles") for key in doc.keys)
        if not apart:
            yield from _share(launch.where, launch, ctx, frozenset())


def _largest(shares: Sequence[_Share]) -> list[_Share]:
    """The shares that may run at the same time and take the most together."""
    best: list[_Share] = []
    few = list(shares)[:12]
    for size in range(2, len(few) + 1):
        for some in itertools.combinations(few, size):
            apart = any(a.name in b.beside or b.name in a.beside
                        for a, b in itertools.combinations(some, 2))  # fmt: skip
            if not apart and sum(s.fraction for s in some) > sum(s.fraction for s in best):
                best = list(some)
    return best


@launch_rule(Verdict.WARN, Verdict.BLOCK)
def kv_bytes_alone(launch: Launch, doc: Document, ctx: Context) -> Iterator[Found]:
    """--kv-cache-memory-bytes without --gpu-memory-utilization skips the check of free memory.

    The number is taken as it is. A host froze in one report; another recommends it for cold
    starts. Keep the share beside it: it is what refuses a start that cannot fit.

    Bad:
        vllm serve /srv/m --kv-cache-memory-bytes 60G

    Good:
        vllm serve /srv/m --kv-cache-memory-bytes 40G --gpu-memory-utilization 0.8

    Source: AEON-7/vllm-ultimate-dgx-spark#9, NVIDIA/xr-ai#462
    """
    size = ctx.number(launch, "kv-cache-memory-bytes")
    option = ctx.option(launch, "kv-cache-memory-bytes")
    if launch.engine is not Engine.VLLM or option is None or option.value is None:
        return
    gib = (size or 0) / 2**30
    if gib > HIGHEST * POOL_GIB:
        yield Found(
            option.value.at, f"{gib:.0f} GiB of KV cache leave nothing for weights and system",
            "lower it: weights, KV cache and 12 GiB for the system share 121 GiB",
            sees=option.text or "", verdict=Verdict.BLOCK,
        )  # fmt: skip
    elif ctx.option(launch, "gpu-memory-utilization") is None:
        yield Found(
            option.value.at, "nothing checks at the start whether this much memory is free",
            "add --gpu-memory-utilization 0.8 beside it", sees=option.text or "",
        )  # fmt: skip
