"""Measured decoding beside the bandwidth's roof and public figures, and usual causes below. Pure.

The gate: 0.59 of the roof is 45 of 76 tok/s for gpt-oss-120b (MXFP4, q8_0 attention) on one Spark,
which measures 58.7 when it is well (ggml-org's benches, llama.cpp discussion 16578) and 33 to 35
with a wrong backend or a power cap. It holds for a Spark alone: a GPU with more bandwidth is bound
by latency at one user (H200: 18 % of its roof, measured with the same model).
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from sparkwright.bench_runs import Depth
from sparkwright.kv_cache import ELEMENT
from sparkwright.model_shape_files import Model
from sparkwright.roofline import GB10_BANDWIDTH, read_per_token, roof

GATE: Final = 0.59
DATA = Path(__file__).resolve().parent / "data/bench-references.json"


def kv_bytes(flags: Mapping[str, Any]) -> float:
    """Bytes of an element of the KV cache, by the engine's own flags; f16 where none is said."""
    kind = str(flags.get("kv-cache-dtype", flags.get("cache-type-k", "auto")))
    return ELEMENT.get(kind, 2.0)


def judged(
    depths: Sequence[Depth],
    model: Model | None,
    flags: Mapping[str, Any],
    tg: int,
    bandwidth: float,
) -> tuple[Depth, ...]:
    """
    The measured depths with their roofs.

    + tg: tokens that were generated: on average the context is half of them deeper
    + bandwidth: bytes/s
    """
    if model is None or not model.tensors:
        return tuple(depths)
    read, each = read_per_token(model.tensors, model.shape), kv_bytes(flags)
    found = []
    for depth in depths:
        top = roof(read, model.shape, depth.tokens + tg // 2, each, bandwidth).rate
        share = depth.decode / top if depth.decode else None
        found.append(dataclasses.replace(depth, roof=top, share=share))
    return tuple(found)


def gate_for(bandwidth: float, asked: float | None) -> float | None:
    """The share of the roof that must be reached: as asked, else a Spark's, else none."""
    if asked is not None:
        return asked
    return GATE if bandwidth == GB10_BANDWIDTH else None


def references(repo: str | None, engine: str) -> tuple[Mapping[str, Any], ...]:
    """Public figures on one Spark for a model, each with its source; those of the engine first."""
    if repo is None:
        return ()
    rows = [row for row in json.loads(DATA.read_text()) if repo in row["repos"]]
    ordered = sorted(rows, key=lambda row: row["engine"] != engine)
    return tuple({key: row[key] for key in row if key != "repos"} for row in ordered)


def causes(recipe: str, engine: str, flags: Mapping[str, Any], machine: str) -> tuple[
    Mapping[str, str], ...
]:  # fmt: skip
    """What makes decoding slow, most likely first: what the recipe itself shows leads."""
    at = f"--limit {machine}" if machine else ""
    slow = f"sparkwright doctor slow {at}".strip()
    logs = f"sparkwright logs {recipe} {at}".strip()
    eager = flags.get("enforce-eager") is True
    mapped = str(flags.get("load-mode", "")) == "mmap" or flags.get("mmap") is True
    rows = [
        (eager, "eager mode", "no CUDA graphs: about 55 % slower; the recipe says enforce-eager"
         if eager else "vLLM without CUDA graphs is about 55 % slower", slow),
        (False, "wrong backend", "no FP4 kernels of 121a, layers on the CPU, MARLIN instead of "
         "CUTLASS: 26 to 35 instead of 58 tok/s", f"sparkwright verify {at}".strip()),
        (mapped, "mmap", "weights are paged in while they are read; the recipe says so"
         if mapped else "weights by mmap are paged in while they are read", logs),
        (False, "power cap", "a weak power supply or heat caps the clocks; take the machine off "
         "the mains for a minute", slow),
        (False, "degraded port", "for a model over two machines: one fabric link down, or NCCL "
         "over sockets", "sparkwright doctor network"),
        (False, "not alone", "something else computes or holds memory on the machine",
         f"sparkwright status --memory {at}".strip()),
    ]  # fmt: skip
    if engine == "llama.cpp":
        rows = [row for row in rows if row[1] != "eager mode"]
    rows.sort(key=lambda row: not row[0])
    return tuple({"cause": name, "why": why, "look": look} for _, name, why, look in rows)
