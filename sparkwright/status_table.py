"""The table of `sparkwright status`: as many columns as there is room for, and no name cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rich.table import Table
from rich.text import Text

from sparkwright.status_rows import MachineRow, Row
from sparkwright.status_text import age, rate

Cells = dict[str, Text]
COLOURS: Final = {"running": "green", "standby": "cyan", "loading": "yellow", "unknown": "magenta"}
COLUMNS: Final = (
    "MACHINE", "RECIPE", "STATE", "UP", "PORT", "GIB", "FREE", "BUILD", "AS WANTED", "ANSWERED",
    "TOK/S",
)  # fmt: skip
RIGHT: Final = ("UP", "PORT", "GIB", "FREE", "TOK/S")
GO_FIRST: Final = ("BUILD", "GIB", "PORT", "UP", "FREE", "ANSWERED", "TOK/S")
GAP: Final = 2  # columns of the terminal between two of the table


@dataclass(frozen=True)
class Shown:
    """A table, and the lines that belong below it."""

    table: Table
    lines: list[str]


def show(machines: Sequence[MachineRow], now: float, width: int) -> Shown:
    """
    One line for each machine and recipe.

    What has no room is left out by whole columns, and said below: differences first become a word
    with the phrase below the table.

    + now: unix time, from which ages are counted
    + width: of the terminal
    """
    full = [cells for machine in machines for cells in _of(machine, now, brief=False)]
    names, brief = list(COLUMNS), False
    if _needed(full, names) > width:
        full, brief = [c for m in machines for c in _of(m, now, brief=True)], True
    gone: list[str] = []
    while _needed(full, names) > width and len(gone) < len(GO_FIRST):
        gone.append(GO_FIRST[len(gone)])
        names.remove(gone[-1])
    lines = _phrases(machines) if brief else []
    lines += [f"{m.name}: {_line(m.why)}" for m in machines if m.why and (m.rows or brief)]
    lines += hints(machines)
    if gone:
        lines.append(f"no room for {', '.join(gone)}: widen the terminal, or use --json")
    return Shown(_table(full, names), lines)


def _table(rows: Sequence[Cells], names: Sequence[str]) -> Table:
    made = Table(box=None, pad_edge=False, header_style="bold")
    for name in names:
        # Folded where even that has no room: a name that is cut names nothing.
        made.add_column(name, justify="right" if name in RIGHT else "left", overflow="fold",
                        no_wrap=False)  # fmt: skip
    for row in rows:
        made.add_row(*(row.get(name, Text()) for name in names))
    return made


def _needed(rows: Sequence[Cells], names: Sequence[str]) -> int:
    """Width of the table, with nothing folded."""
    cells = (max([len(name), *(len(row.get(name, "")) for row in rows)]) for name in names)
    return sum(cells) + GAP * (len(names) - 1)


def _of(machine: MachineRow, now: float, brief: bool) -> list[Cells]:
    """The lines of one machine."""
    if machine.rows:
        return [_cells(machine, row, now, brief) for row in machine.rows]
    state = Text("unknown", "magenta") if machine.why else Text("no recipe")
    why = "?" if brief and machine.why else _line(machine.why)
    plain = {"MACHINE": machine.name, "RECIPE": "-", "FREE": _gib(machine.available_gib),
             "AS WANTED": why}  # fmt: skip
    return [{**{name: Text(text) for name, text in plain.items()}, "STATE": state}]


def _cells(machine: MachineRow, row: Row, now: float, brief: bool) -> Cells:
    """A cell is a Text as it is: what machines say may look like rich's markup."""
    state = f"{row.state} {row.percent} %" if row.percent is not None else row.state
    plain = {
        "MACHINE": row.machine,
        "RECIPE": row.recipe,
        "UP": age(row.uptime_s) if row.uptime_s is not None else "",
        "PORT": str(row.port),
        "GIB": _gib(row.used_gib),
        "FREE": _gib(machine.available_gib),
        "BUILD": row.build or "",
        "AS WANTED": wanted(row, brief),
        "ANSWERED": answered(row, now),
        "TOK/S": rate(row),
    }
    made = {name: Text(text) for name, text in plain.items()}
    return {**made, "STATE": Text(state, COLOURS.get(row.state, "red"))}


def answered(row: Row, now: float) -> str:
    """When its question was answered, and whether that was this start."""
    if row.state == "unknown":
        return ""
    if row.accepted_at is None:
        return "never"
    ago = f"{age(now - row.accepted_at)} ago"
    return f"{ago}, not this start" if row.accepted is False else ago


def wanted(row: Row, brief: bool) -> str:
    """Whether it runs as wanted, in a few words, or in one."""
    if row.drift is None:
        return "?" if brief else _line(row.why)
    if not row.drift:
        return "yes"
    return "drift" if brief else _phrase(row)


def _phrase(row: Row) -> str:
    drift = row.drift or ("",)
    more = f" (+{len(drift) - 1})" if len(drift) > 1 else ""
    return f"drift: {drift[0]}{more}"


def _phrases(machines: Sequence[MachineRow]) -> list[str]:
    """What the table has no room for, a line each."""
    rows = [row for machine in machines for row in machine.rows]
    lines = [f"{row.machine} {row.recipe}: {_phrase(row)}" for row in rows if row.drift]
    unclear = [row for m in machines if not m.why for row in m.rows if row.drift is None]
    return [*lines, *(f"{row.machine} {row.recipe}: {_line(row.why)}" for row in unclear)]


def hints(machines: Sequence[MachineRow]) -> list[str]:
    """What to do."""
    lines = []
    if any(row.drift for machine in machines for row in machine.rows):
        lines.append("`sparkwright check` names every difference, `sparkwright converge` mends it")
    troubled = ("failed", "failing", "silent")
    bad = [row for m in machines for row in m.rows if row.state in troubled]
    if bad:
        lines.append(f"look closer: sparkwright logs {bad[0].recipe} --limit {bad[0].machine}")
        lines.append(f"find the cause: sparkwright doctor --limit {bad[0].machine}")
    return lines


def _line(text: str) -> str:
    return " ".join(text.split())


def _gib(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"
