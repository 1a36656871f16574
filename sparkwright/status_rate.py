"""Tokens of the last minute while somebody watches: differences of a counter between looks."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Sequence

from sparkwright.status_rows import MachineRow, Row

WINDOW_S = 60.0


class Rates:
    """Remembers counters of engines by start; a restart begins anew."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str, str], deque[tuple[float, float]]] = {}

    def update(self, machines: Sequence[MachineRow], now: float) -> list[MachineRow]:
        """The machines with rates over up to a minute, as soon as there are two looks.

        + now: seconds of a clock that never goes back
        """
        return [
            dataclasses.replace(m, rows=tuple(self._row(row, now) for row in m.rows))
            for m in machines
        ]

    def _row(self, row: Row, now: float) -> Row:
        if row.tokens is None:
            return row
        key = (row.machine, row.recipe, row.invocation)
        looks = self._seen.setdefault(key, deque())
        if looks and row.tokens < looks[-1][1]:
            looks.clear()
        looks.append((now, row.tokens))
        while len(looks) > 2 and now - looks[1][0] >= WINDOW_S:
            looks.popleft()
        if len(looks) < 2 or now == looks[0][0]:
            return row
        over = now - looks[0][0]
        return dataclasses.replace(row, tok_s=(row.tokens - looks[0][1]) / over, tok_over_s=over)
