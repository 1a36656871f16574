"""What `sparkwright status` says beside its table: words, who holds memory, an object."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from typing import Any

from sparkwright.status_rows import MachineRow, Row

WORDS = {0: "ok", 1: "attention", 2: "unknown"}


def code(machines: Sequence[MachineRow]) -> int:
    """0 all is as wanted, 1 something needs somebody, 2 a machine could not be asked or judged."""
    return max((machine.code for machine in machines), default=0)


def rate(row: Row) -> str:
    """Tokens a second; a dash where the engine tells no counter."""
    if row.tok_s is None:
        return "-" if row.state != "unknown" else ""
    return f"{row.tok_s:.1f}" if row.tok_s or row.requests else "idle"


def age(seconds: float) -> str:
    """A time in the largest unit that says something: 42s, 12m, 5h, 3d."""
    for size, letter in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{int(seconds // size)}{letter}"
    return f"{int(max(seconds, 0))}s"


def holders(machines: Sequence[MachineRow]) -> list[str]:
    """Who holds the memory, process by process."""
    lines = []
    for machine in machines:
        if machine.total_gib is None:
            continue
        lines.append(
            f"{machine.name}: {machine.available_gib:.1f} of {machine.total_gib:.1f} GiB free; "
            f"gpu-memory-utilization up to {machine.share:.2f} would start now"
        )
        lines += [f"  {gib:7.2f} GiB  {name}  {unit}".rstrip() for name, unit, gib in
                  machine.holders]  # fmt: skip
    return lines


def memory(machine: MachineRow) -> dict[str, Any]:
    """The same as an object; of a machine that could not be asked nothing is known."""
    figures = {"total_gib": machine.total_gib, "available_gib": machine.available_gib,
               "share": machine.share}  # fmt: skip
    rows = [{"process": name, "unit": unit, "gib": round(gib, 3)}
            for name, unit, gib in machine.holders]  # fmt: skip
    return {**_rounded(figures), "holders": rows}


def as_json(machines: Sequence[MachineRow], now: float) -> dict[str, Any]:
    """The object of docs/schemas/status.json."""
    return {
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now)),
        "state": WORDS[code(machines)],
        "machines": [_machine(machine) for machine in machines],
    }


def _machine(machine: MachineRow) -> dict[str, Any]:
    made = dataclasses.asdict(machine)
    made["state"] = WORDS[machine.code]
    made["recipes"] = [{**_clean(row), "good": row.good} for row in machine.rows]
    del made["rows"]
    return made | memory(machine)


def _rounded(made: Mapping[str, Any]) -> dict[str, Any]:
    return {key: round(v, 3) if isinstance(v, float) else v for key, v in made.items()}


def _clean(row: Row) -> dict[str, Any]:
    made = dataclasses.asdict(row)
    for name in ("machine", "invocation", "tokens", "result"):
        del made[name]
    made["drift"] = None if row.drift is None else list(row.drift)
    return _rounded(made)
