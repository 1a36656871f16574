"""The end of a converge on one screen: what changed, what was started, how to ask it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

Findings = Sequence[Mapping[str, str]]  # rows of report.record: kind, host, what
SCREEN: Final = 24  # lines of a terminal that nobody has widened
HOSTS, PHRASES, ENDPOINTS, NOTES = 8, 3, 4, 3  # rows of each part; the rest is counted


def lines(found: Findings) -> list[str]:
    """
    What somebody wants to know after a converge; nothing when nothing changed.

    + found: kinds changed, started, accepted, endpoint, note and problem are read

    At most SCREEN lines, two of them left for what the caller adds.
    """
    changed = of(found, "changed")
    if not changed:
        return []
    shown = _machines(found, sorted({host for host, _ in changed}))
    if endpoints := of(found, "endpoint"):
        shown.append("ask it:")
        shown += _some([f"  {what}" for _, what in endpoints], ENDPOINTS, "sparkwright status")
    if notes := list(dict.fromkeys(what for _, what in of(found, "note"))):
        shown.append("worth knowing:")
        shown += _some([f"  {what}" for what in notes], NOTES, "the log above has them")
    return [*shown, _next(of(found, "problem"))]


def of(found: Findings, kind: str) -> list[tuple[str, str]]:
    """(host, what) of one kind, each once, in order."""
    rows = [(row["host"], row["what"]) for row in found if row["kind"] == kind]
    return list(dict.fromkeys(rows))


def _machines(found: Findings, hosts: Sequence[str]) -> list[str]:
    """A line for each machine, and its differences where there is room for them."""
    room = PHRASES if len(hosts) <= 2 else 0
    shown = []
    for host in hosts[:HOSTS]:
        mine = {kind: [what for name, what in of(found, kind) if name == host]
                for kind in ("changed", "started", "accepted")}  # fmt: skip
        parts = [f"{len(mine['changed'])} difference(s) mended"]
        parts += [f"started {', '.join(mine['started'])}"] if mine["started"] else []
        if mine["accepted"]:
            parts.append(f"{', '.join(mine['accepted'])} answered its question")
        shown.append(f"{host}: {'; '.join(parts)}")
        shown += [f"  {what}" for what in mine["changed"][:room]]
        if room and len(mine["changed"]) > room:
            shown.append(f"  and {len(mine['changed']) - room} more")
    left = len(hosts) - HOSTS
    return [*shown, f"and {left} more machine(s)"] if left > 0 else shown


def _some(texts: Sequence[str], count: int, command: str) -> list[str]:
    left = len(texts) - count
    return [*texts[:count], f"  and {left} more: {command}"] if left > 0 else list(texts)


def _next(problems: Sequence[tuple[str, str]]) -> str:
    if not problems:
        return "how it runs: sparkwright status"
    return f"look closer: sparkwright doctor --limit {problems[0][0]}"
