"""What `sparkwright bench` prints for people. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sparkwright.bench_runs import Depth, Level, Run
from sparkwright.bench_store import Row, differences

NOTHING = "-"


def number(value: float | None, digits: int = 1) -> str:
    """A figure, or a dash."""
    return NOTHING if value is None else f"{value:.{digits}f}"


def milliseconds(pair: tuple[float, float] | None) -> tuple[str, str]:
    """p50 and p99 in ms."""
    if pair is None:
        return NOTHING, NOTHING
    return f"{pair[0] * 1000:.1f}", f"{pair[1] * 1000:.1f}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns aligned to the right."""
    widths = [max(len(row[place]) for row in (head, *rows)) for place in range(len(head))]
    return ["  " + "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
            for row in (head, *rows)]  # fmt: skip


def lines(run: Run) -> list[str]:
    """One run."""
    at = f" on {run.machine}" if run.machine else ""
    build = f", build {run.build}" if run.build else ""
    shown = [f"{run.recipe}{at}: {run.engine}{build}, asked from {run.place}, run {run.id}"]
    if run.depths:
        shown += ["one user:", *table(*_depths(run.depths))]
    shown += [_roof(run), *map(reference, run.references)]
    if run.levels:
        shown += ["users at once (throughput of all; TTFT and TPOT of each):",
                  *table(*_levels(run.levels))]  # fmt: skip
    shown += benchy(run.benchy)
    if run.slow:
        shown.append(f"BELOW THE GATE of {run.gate:.0%} of the roof. What usually is the cause:")
        shown += [f"  {row['cause']}: {row['why']}; look: `{row['look']}`" for row in run.causes]
    errors = [text for depth in run.depths for text in depth.errors]
    errors += [text for level in run.levels for text in level.errors]
    shown += [f"FAILED: {text}" for text in dict.fromkeys(errors)]
    return [*shown, *(f"note: {text}" for text in run.notes)]


def _depths(depths: Sequence[Depth]) -> tuple[Sequence[str], list[Sequence[str]]]:
    head = ("PROMPT", "PREFILL tok/s", "DECODE tok/s", "SPREAD", "ROOF tok/s", "OF ROOF")
    rows = [(str(d.tokens), number(d.prefill, 0), number(d.decode), number(d.spread),
             number(d.roof), NOTHING if d.share is None else f"{d.share:.1%}")
            for d in depths]  # fmt: skip
    return head, list(rows)


def _levels(levels: Sequence[Level]) -> tuple[Sequence[str], list[Sequence[str]]]:
    head = ("USERS", "tok/s", "TTFT p50 ms", "p99", "TPOT p50 ms", "p99", "FAILED")
    rows = [(str(level.users), number(level.throughput), *milliseconds(level.ttft),
             *milliseconds(level.tpot), str(level.failed)) for level in levels]  # fmt: skip
    return head, list(rows)


def _roof(run: Run) -> str:
    if run.read_gb is None:
        return "roof: not known, the model's tensors are not at hand"
    return (f"roof: {run.bandwidth:g} GB/s over {run.read_gb:.3g} GB of weights that a token "
            "reads, and the KV cache of its depth")  # fmt: skip


def reference(row: Mapping[str, Any]) -> str:
    """A public figure."""
    prefill = f"prefill {row['prefill']:g}, " if row["prefill"] else ""
    return (f"public, one Spark, {row['engine']}, depth {row['depth']}: {prefill}decode "
            f"{row['decode']:g} tok/s ({row['what']}; {row['source']})")  # fmt: skip


def benchy(found: Mapping[str, Any]) -> list[str]:
    """llama-benchy's table, or why there is none."""
    if not found:
        return []
    if "why" in found:
        return [f"llama-benchy: not run, {found['why']}"]
    rows = [(row["test"], f"{row['mean']:.2f}", f"{row['std']:.2f}") for row in found["rows"]]
    return [f"llama-benchy {found['version']}:", *table(("TEST", "tok/s", "+-"), rows)]


def comparison(a: Run, b: Run, rows: Sequence[Row]) -> list[str]:
    """Two runs side by side."""
    shown = [
        f"A {a.id} {a.recipe} {a.machine}".rstrip(),
        f"B {b.id} {b.recipe} {b.machine}".rstrip(),
    ]
    shown += [f"  differs: {text}" for text in differences(a, b)] or ["  same settings and build"]
    body = [(row.name, number(row.a), number(row.b), row.unit, change(row)) for row in rows]
    return [*shown, *table(("FIGURE", "A", "B", "UNIT", "CHANGE"), body)]


def change(row: Row) -> str:
    """How much better or worse."""
    if row.change is None:
        return NOTHING
    word = "better" if row.change > 0 else "worse" if row.change < 0 else "same"
    return f"{abs(row.change):.1%} {word}"


def compare_json(a: Run, b: Run, rows: Sequence[Row]) -> dict[str, Any]:
    """The object of docs/schemas/bench-compare.json."""
    return {
        "a": a.id, "b": b.id, "differs": differences(a, b),
        "figures": [{"name": row.name, "unit": row.unit, "a": row.a, "b": row.b,
                     "change": row.change} for row in rows],
    }  # fmt: skip
