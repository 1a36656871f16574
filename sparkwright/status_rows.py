"""One row for each machine and recipe: what is wanted, what was seen, and what is wrong. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from sparkwright.site import Planned

GOOD: Final = ("running", "standby")  # states that need nobody


@dataclass(frozen=True)
class Row:
    """One recipe on one machine; None stands for what is not known.

    + state: running, loading, failing (restarts again and again), failed, stopped, standby,
      missing (no such unit yet), silent (runs, but does not answer), unknown
    + percent: of a load, by the bytes that were read
    + drift: phrases of `sparkwright check`; empty when it runs as wanted
    + accepted_at: unix time of the last answer to its question; accepted: was it this start's?
    + result: systemd's word for how an inactive unit ended; empty for one that is not inactive
    + tok_s: over the last tok_over_s seconds, from the engine's /metrics; None: it has none
    """

    machine: str
    recipe: str
    wanted: str
    state: str
    port: int
    listen: str
    engine: str
    memory_gib: float
    why: str = ""
    build: str | None = None
    digest: str | None = None
    percent: int | None = None
    uptime_s: float | None = None
    used_gib: float | None = None
    drift: tuple[str, ...] | None = None
    accepted: bool | None = None
    accepted_at: float | None = None
    tok_s: float | None = None
    tok_over_s: float | None = None
    tokens: float | None = None
    requests: int | None = None
    waiting: int | None = None
    restarts: int | None = None
    invocation: str = ""
    result: str = ""

    @property
    def good(self) -> bool:
        """Does it need nobody? What was not accepted after this start does."""
        fine = self.state in GOOD and self.drift == ()
        return fine and (self.state == "standby" or self.accepted is True)


@dataclass(frozen=True)
class MachineRow:
    """One machine; `why` says what kept it from being asked or judged.

    + share: the largest gpu-memory-utilization that memory which is free now would hold; never
      above the one at which machines wedge
    + holders: (process, its unit or container or "", GiB) of those that hold most
    """

    name: str
    reached: bool
    why: str
    rows: tuple[Row, ...]
    total_gib: float | None = None
    available_gib: float | None = None
    share: float | None = None
    holders: tuple[tuple[str, str, float], ...] = ()

    @property
    def code(self) -> int:
        """0 all is as wanted, 1 something needs somebody, 2 it could not be asked or judged."""
        if self.why or any(row.state == "unknown" or row.drift is None for row in self.rows):
            return 2
        return 0 if all(row.good for row in self.rows) else 1


def build_of(build: str, version: str) -> str:
    """A build as people name it: its version, then the digits that tell two builds apart.

    llama.cpp says "0.5.0-dev (build 11312, commit …)", and its releases are called b11312.
    """
    number = re.search(r"\(build (\d+)", version)
    short = build.rsplit("-", 1)[-1].removeprefix("sha256:")[:8]
    return f"{f'b{number[1]}' if number else version} {short}".strip()


def state_of(item: Planned, unit: Mapping[str, Any]) -> str:
    """One word for what systemd and the engine say."""
    if unit["load"] != "loaded":
        return "missing"
    active = unit["active"]
    if active == "active":
        return "running" if unit["health"] == 200 else "silent"
    if active in ("activating", "reloading"):
        return "failing" if unit["sub"] == "auto-restart" else "loading"
    if active == "failed":
        return "failed"
    return "standby" if item.state == "standby" else "stopped"


def percent(item: Planned, unit: Mapping[str, Any]) -> int | None:
    """How far a load has come: bytes that the unit's processes have read of its weights.

    A load by mmap reads nothing, and a container's processes are not the unit's: not known then.
    """
    files = item.weights.files if item.weights else ()
    size = sum(file.size for file in files if file.path in item.files)
    read = unit.get("read") or 0
    return min(99, int(100 * read / size)) if size and read else None
