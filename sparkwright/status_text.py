"""What `sparkwright status` shows: a table for people, an object for programs."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from sparkwright.status_rows import MachineRow, Row

COLOURS = {"running": "green", "standby": "cyan", "loading": "yellow", "unknown": "magenta"}
WORDS = {0: "ok", 1: "attention", 2: "unknown"}


def code(machines: Sequence[MachineRow]) -> int:
    """0 all is as wanted, 1 something needs somebody, 2 a machine could not be asked or judged."""
    return max((machine.code for machine in machines), default=0)


def table(machines: Sequence[MachineRow], now: float) -> Table:
    """One line for each machine and recipe.

    + now: unix time, from which ages are counted
    """
    made = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("MACHINE", "RECIPE", "STATE", "UP", "PORT", "GIB", "FREE", "BUILD", "AS WANTED",
                 "ANSWERED", "TOK/S"):  # fmt: skip
        right = name in ("UP", "PORT", "GIB", "FREE", "TOK/S")
        made.add_column(name, justify="right" if right else "left", no_wrap=name != "AS WANTED")
    for machine in machines:
        for row in machine.rows:
            made.add_row(*map(_plain, _cells(machine, row, now)))
        if not machine.rows:
            state = Text("unknown", "magenta") if machine.why else Text("serves nothing")
            free, why = _gib(machine.available_gib), " ".join(machine.why.split())
            cells: list[Text | str] = [machine.name, "-", state, "", "", "", free, "", why, "", ""]
            made.add_row(*map(_plain, cells))
    return made


def _plain(cell: Text | str) -> Text:
    """A cell as it is: what machines say may look like rich's markup."""
    return cell if isinstance(cell, Text) else Text(cell)


def _cells(machine: MachineRow, row: Row, now: float) -> list[Text | str]:
    state = f"{row.state} {row.percent} %" if row.percent is not None else row.state
    answered = "never" if row.accepted_at is None else f"{age(now - row.accepted_at)} ago"
    if row.accepted is False and row.accepted_at is not None:
        answered += ", not this start"
    known = row.state != "unknown"
    return [
        row.machine,
        row.recipe,
        Text(state, COLOURS.get(row.state, "red")),
        age(row.uptime_s) if row.uptime_s is not None else "",
        str(row.port),
        _gib(row.used_gib),
        _gib(machine.available_gib),
        row.build or "",
        wanted(row),
        answered if known else "",
        rate(row),
    ]


def wanted(row: Row) -> str:
    """Whether it runs as wanted, in a few words."""
    if row.drift is None:
        return " ".join(row.why.split())
    if not row.drift:
        return "yes"
    more = f" (+{len(row.drift) - 1})" if len(row.drift) > 1 else ""
    return f"drift: {row.drift[0]}{more}"


def rate(row: Row) -> str:
    """Tokens a second; a dash where the engine tells no counter."""
    if row.tok_s is None:
        return "-" if row.state != "unknown" else ""
    return f"{row.tok_s:.1f}" if row.tok_s or row.requests else "idle"


def _gib(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def age(seconds: float) -> str:
    """A time in the largest unit that says something: 42s, 12m, 5h, 3d."""
    for size, letter in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{int(seconds // size)}{letter}"
    return f"{int(max(seconds, 0))}s"


def foot(machines: Sequence[MachineRow]) -> list[str]:
    """What the table has no room for, and what to do."""
    lines = [f"{m.name}: {' '.join(m.why.split())}" for m in machines if m.why and m.rows]
    drifting = any(row.drift for machine in machines for row in machine.rows)
    if drifting:
        lines.append("`sparkwright check` names every difference, `sparkwright converge` mends it")
    troubled = ("failed", "failing", "silent")
    bad = [row for m in machines for row in m.rows if row.state in troubled]
    if bad:
        one = bad[0]
        lines.append(f"look closer: sparkwright logs {one.recipe} --limit {one.machine}")
    return lines


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
    made["holders"] = [
        {"process": name, "unit": unit, "gib": round(gib, 3)} for name, unit, gib in machine.holders
    ]
    del made["rows"]
    return {key: round(v, 3) if isinstance(v, float) else v for key, v in made.items()}


def _clean(row: Row) -> dict[str, Any]:
    made = dataclasses.asdict(row)
    for name in ("machine", "invocation", "tokens"):
        del made[name]
    made["drift"] = None if row.drift is None else list(row.drift)
    return {key: round(v, 3) if isinstance(v, float) else v for key, v in made.items()}
