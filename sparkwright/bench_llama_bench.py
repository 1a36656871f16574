"""What `llama-bench -o json` measured, judged like a run of ours.

For a model that cannot be served, such as one without a vocabulary, and for figures of others.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sparkwright import bench_measure, bench_url
from sparkwright.bench_drive import Asked, Target
from sparkwright.bench_measure import Subject
from sparkwright.bench_runs import Depth, Run
from sparkwright.errors import SparkwrightError


def run(options: argparse.Namespace) -> Run:
    """Judge a file. Raises SparkwrightError when it is none of llama-bench's."""
    path: Path = options.llama_bench
    try:
        rows = json.loads(path.read_text())
        depths, tg = depths_of(rows)
    except OSError as error:
        raise SparkwrightError(f"{path}: {error.strerror}; give a readable file") from None
    except (ValueError, KeyError, TypeError):
        what = "is no output of `llama-bench -o json`"
        raise SparkwrightError(f"{path}: {what}; run it again with that option") from None
    first: Mapping[str, Any] = rows[0]
    subject = Subject(
        where=str(path),
        recipe=options.recipe or str(first.get("model_type", path.stem)),
        machine=str(first.get("gpu_info", "")),
        engine="llama.cpp",
        target=Target("file", "", 0, str(first.get("model_filename", ""))),
        place="llama-bench",
        bandwidth=bench_measure.bytes_s(options.bandwidth),
        model=bench_url.model_of(options.model_file),
        flags={"cache-type-k": first.get("type_k", "f16")},
        build=f"b{first['build_number']}" if first.get("build_number") else None,
    )
    asked = Asked(pp=0, tg=tg, users=())
    made = bench_measure.run_of(subject, depths, (), asked, options.gate)
    return replace(made, benchy={"why": "figures are llama-bench's"})


def depths_of(rows: Sequence[Mapping[str, Any]]) -> tuple[tuple[Depth, ...], int]:
    """Depths with what was measured there, and how many tokens were generated.

    llama-bench fills the context to its depth first, so prefill and decode are those behind it.
    Raises KeyError, ValueError.
    """
    if not rows:
        raise ValueError
    found: dict[int, dict[str, Any]] = {}
    for row in rows:
        part = found.setdefault(int(row.get("n_depth", 0)), {})
        rate, prompt, many = float(row["avg_ts"]), int(row["n_prompt"]), int(row["n_gen"])
        if prompt and not many:
            part["prefill"] = rate
        elif many and not prompt:
            part |= {"decode": rate, "spread": 2 * float(row["stddev_ts"]), "tg": many}
    depths = tuple(
        Depth(depth, part.get("prefill"), part.get("decode"), part.get("spread"))
        for depth, part in sorted(found.items())
    )
    return depths, max(part.get("tg", 0) for part in found.values())
