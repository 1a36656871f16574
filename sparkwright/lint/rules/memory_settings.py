"""Settings that take more memory than they say, or that keep it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from sparkwright.lint.context import Context
from sparkwright.lint.findings import Found, Verdict
from sparkwright.lint.model import GPU_ENGINES, At, Document, Engine, Kind, Launch
from sparkwright.lint.registry import file_rule, launch_rule
from sparkwright.lint.rules.systemd_reading import assignments

_BATCHED: Final = 16384
_LONG: Final = 32768


@launch_rule(Verdict.WARN, Verdict.NOTE)
def batched_tokens(launch: Launch, doc: Document, ctx: Context) -> Iterator[Found]:
    """--max-num-batched-tokens as large as the context takes the memory of a whole prefill.

    Activations grow with it, outside of the budget that the profile run saw. On one GB10 the
    service blocked, the memory ran out and the machine hung. It is a NOTE when a step takes two
    or more whole requests of a short context, at most 32768 tokens in all and 0.8 of the memory:
    vLLM runs such a step at its start, before it gives the rest to the KV cache, and no longer
    prefill can come.

    Bad:
        vllm serve /srv/m --max-num-batched-tokens 65536 --max-model-len 65536

    Good:
        vllm serve /srv/m --max-num-batched-tokens 8192 --max-model-len 65536

    Source: AEON-7/vllm-dflash#1
    """
    option = ctx.option(launch, "max-num-batched-tokens")
    tokens = ctx.number(launch, "max-num-batched-tokens")
    length = ctx.number(launch, "max-model-len")
    if launch.engine is not Engine.VLLM or option is None or option.value is None or not tokens:
        return
    whole = length is not None and length > _LONG and tokens == length
    if tokens > _BATCHED or whole:
        why = "as many as the context" if whole else f"more than {_BATCHED}"
        share = ctx.number(launch, "gpu-memory-utilization") or 1
        short = length is not None and length <= _BATCHED and tokens >= 2 * length
        meant = short and tokens <= _LONG and share <= 0.8
        yield Found(
            option.value.at, f"{tokens:g} batched tokens are {why}: too much for one GB10"
            if not meant else f"{tokens:g} batched tokens in a step, for many short requests",
            "write --max-num-batched-tokens 8192", sees=option.text or "",
            verdict=Verdict.NOTE if meant else Verdict.WARN,
        )  # fmt: skip


@launch_rule(Verdict.WARN)
def segments_and_autotune(launch: Launch, doc: Document, ctx: Context) -> Iterator[Found]:
    """Expandable segments together with FlashInfer's autotune end in NV_ERR_NO_MEMORY.

    Each of them alone is fine. Together they gave 0x51 in the kernel's log and a hard reset before
    the first request.

    Bad:
        PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True vllm serve /srv/m \\
            --enable-flashinfer-autotune

    Good:
        vllm serve /srv/m --enable-flashinfer-autotune

    Source: NVIDIA/dgx-spark-playbooks#97, vllm-project/vllm#56824
    """
    option = ctx.option(launch, "enable-flashinfer-autotune")
    for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
        item = launch.get(name)
        if option is None or item is None or option.text in ("false", "False"):
            continue
        if re.search(r"expandable_segments:\s*true", item.value or "", re.I):
            yield Found(
                item.at, f"{name}=expandable_segments:True with --enable-flashinfer-autotune",
                f"remove {name}, or the autotune", sees=item.value or "",
            )  # fmt: skip


@file_rule(Verdict.WARN)
def keep_alive(doc: Document, ctx: Context) -> Iterator[Found]:
    """OLLAMA_KEEP_ALIVE=-1 keeps a model in the memory that vLLM wants.

    Ollama's memory is the same pool. The check at vLLM's start fails, or both become slow.

    Bad:
        OLLAMA_KEEP_ALIVE=-1

    Good:
        OLLAMA_KEEP_ALIVE=5m

    Source: al-engr.com; Ollama FAQ, "keep a model loaded"
    """
    for item in assignments(doc):
        if item.name == "OLLAMA_KEEP_ALIVE" and re.match(r"-\d", item.value or ""):
            yield Found(
                item.at, "a model stays in memory for ever, also while another engine starts",
                "write OLLAMA_KEEP_ALIVE=5m", sees=item.value or "",
            )  # fmt: skip


@file_rule(Verdict.WARN)
def smi_memory(doc: Document, ctx: Context) -> Iterator[Found]:
    """nvidia-smi tells no memory on GB10: it prints [N/A].

    The memory is the machine's. A script that reads a number there gets `[N/A]`, and its
    arithmetic fails or takes 0.

    Bad:
        free=$(nvidia-smi --query-gpu=memory.free --format=csv,noheader,nounits)

    Good:
        free=$(awk '/MemAvailable/ {print int($2/1024)}' /proc/meminfo)

    Source: SouthpawIN/turbofit#5, unslothai/unsloth#10283, leptonai/gpud#1170
    """
    for command in doc.commands:
        for word in command.argv[1:] if command.name == "nvidia-smi" else ():
            match = re.search(r"--query-gpu=\S*(memory\.(?:total|free|used))", word.shape)
            if match:
                yield Found(
                    word.at, f"{match[1]} is [N/A] on GB10",
                    "read MemAvailable and MemTotal from /proc/meminfo", sees="[N/A]",
                )  # fmt: skip


@launch_rule(Verdict.NOTE)
def container_memory(launch: Launch, doc: Document, ctx: Context) -> Iterator[Found]:
    """A container's memory limit does not hold CUDA's allocations; a large shm is memory too.

    12 GiB were allocated on the GPU under a limit of 8 GiB. --shm-size is taken from the same pool
    as far as it is used: 64 GB are half the machine.

    Bad:
        docker run --gpus all --shm-size 64g vllm/vllm-openai --model /srv/m

    Good:
        docker run --gpus all --shm-size 10g vllm/vllm-openai --model /srv/m

    Source: minefield#57, tonyd2wild/DeepSeek-v4-Flash-Vision-Exp-DSpark#31
    """
    if launch.engine not in GPU_ENGINES:
        return
    for name, text, at in _sizes(launch, doc):
        size = _gib(text)
        if name == "shm" and size is not None and size > 16:
            yield Found(
                at, f"{size:g} GiB of shared memory come out of the one pool of 121 GiB",
                "10 GB are enough: --shm-size 10g", sees=text,
            )  # fmt: skip
        elif name == "memory" and ctx.option(launch, "gpu-memory-utilization") is None:
            yield Found(
                at, "the limit does not hold memory that CUDA allocates",
                "size it by --gpu-memory-utilization", sees=text,
            )  # fmt: skip


def _sizes(launch: Launch, doc: Document) -> Iterator[tuple[str, str, At]]:
    words = launch.container
    for at, word in enumerate(words):
        match = re.fullmatch(r"--(shm-size|memory)(?:=(.*))?", word.text or "")
        after = words[at + 1] if at + 1 < len(words) else word
        if match:
            value = match[2] if match[2] is not None else after.text
            yield "shm" if match[1] == "shm-size" else "memory", value or "", word.at
    service = f"services/{launch.where}"
    for key in doc.keys if doc.kind is Kind.COMPOSE else ():
        if key.path == f"{service}/shm_size" and key.value:
            yield "shm", key.value, key.at
        elif key.path in (f"{service}/mem_limit", f"{service}/deploy/resources/limits/memory"):
            yield "memory", key.value or "", key.at


def _gib(text: str) -> float | None:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?", text.strip(), re.I)
    scale = {"": 2**-30, "k": 2**-20, "m": 2**-10, "g": 1, "t": 2**10}
    return float(match[1]) * scale[match[2].lower()] if match else None
