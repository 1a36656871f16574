"""From a machine's answers to its rows: the same comparison as a converge makes. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from sparkwright import serve_plan, serving
from sparkwright.engines import Place, key_file
from sparkwright.errors import SparkwrightError
from sparkwright.paths import script
from sparkwright.place import place_of
from sparkwright.resources import State
from sparkwright.site import Planned, planned
from sparkwright.status_ask import Answer
from sparkwright.status_rows import MachineRow, Row, build_of, percent, state_of
from sparkwright.vllm_rules import GPU_SHARE_MAX

GIB: Final = 2**30
UNITS: Final = (".service", ".scope")


def question(name: str, data: Mapping[str, Any]) -> tuple[str, str]:
    """What a machine is asked: its units' own questions, and how they are.

    Raises SparkwrightError when the machine's data cannot be planned.
    """
    items = planned(data)
    place = place_of(data)
    spec = {
        "units": [_unit(item, place) for item in items],
        "probe": script("probe.py"),
        "questions": [asked for item in items for asked in serving.probes(item, place)],
    }
    return "status.py", json.dumps(spec)


def _unit(item: Planned, place: Place) -> dict[str, Any]:
    container = item.recipe.container
    return {
        "unit": f"{item.unit}.service",
        "host": {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(item.listen, item.listen),  # noqa: S104
        "port": item.port,
        "health": container.health if container else "/health",
        "key_file": key_file(item, place.etc_dir),
        "record": f"{serving.ACCEPTED}/{item.unit}.json",
    }


def machine(answer: Answer) -> MachineRow:
    """The rows of one machine."""
    try:
        items = planned(answer.data) if answer.data else ()
    except SparkwrightError as error:
        return MachineRow(answer.name, False, str(error), ())
    if answer.said is None:
        rows = tuple(_row(answer.name, item, "unknown", why=answer.why) for item in items)
        return MachineRow(answer.name, False, answer.why, rows)
    seen: dict[str, Any] = answer.said
    total, free = seen["memory"]["total"] / GIB, seen["memory"]["available"] / GIB
    return MachineRow(
        name=answer.name,
        reached=True,
        why="",
        rows=_rows(answer, items, seen["states"], seen["units"]),
        total_gib=total,
        available_gib=free,
        share=min(GPU_SHARE_MAX, math.floor(free / total * 100) / 100),
        holders=tuple(_holder(row) for row in seen["holders"]),
    )


def _holder(row: Mapping[str, Any]) -> tuple[str, str, float]:
    """Its unit is the innermost that has the process; of docker's units the container says more."""
    parts = [part for part in str(row["group"]).split("/") if part.endswith(UNITS)]
    unit = f"container {row['container']}" if row["container"] else parts[-1] if parts else ""
    return f"{row['name']} ({row['pid']})", unit, row["bytes"] / GIB


def _rows(
    answer: Answer, items: Sequence[Planned], states: list[State], units: Sequence[dict[str, Any]]
) -> tuple[Row, ...]:
    place, rows = place_of(answer.data), []
    for item, unit in zip(items, units, strict=True):
        count = len(serving.probes(item, place))
        own, states = states[:count], states[count:]
        rows.append(_judged(answer.name, item, items, place, own, unit))
    return tuple(rows)


def _judged(
    name: str,
    item: Planned,
    items: Sequence[Planned],
    place: Place,
    states: Sequence[State],
    unit: Mapping[str, Any],
) -> Row:
    found = serving.seen(item, states)
    state, why, drift, build, asked = state_of(item, unit), "", None, None, None
    try:
        build = build_of(*_facts(item, place, found))
        service = serving.service_of(item, items, place, found)
        drift = serve_plan.plan(item, service, found).drift
        asked = serving.question(item, place, found)["asked"]
    except SparkwrightError as error:
        why = str(error)
    except (KeyError, ValueError, TypeError) as error:  # an answer of a kind nobody thought of
        why = f"cannot be judged ({type(error).__name__}: {error})"
    kept, said = unit["accepted"] or {}, unit["metrics"]
    current = kept.get("invocation") == unit["invocation"] and kept.get("asked") == asked
    return _row(
        name, item, state, why=why, build=build, drift=drift,
        digest=found.unit.get("digest") or None,
        percent=percent(item, unit) if state == "loading" else None,
        uptime_s=unit["uptime_s"],
        used_gib=unit["bytes"] / GIB if unit["active"] in ("active", "activating") else None,
        accepted=current if unit["active"] == "active" else None,
        accepted_at=kept.get("at"),
        tok_s=said.get("rate"), tok_over_s=said.get("over_s"), tokens=said.get("tokens"),
        requests=_whole(said.get("busy")), waiting=_whole(said.get("waiting")),
        restarts=unit["restarts"], invocation=unit["invocation"],
        result=unit["result"] if unit["active"] == "inactive" else "",
    )  # fmt: skip


def _row(name: str, item: Planned, state: str, **more: Any) -> Row:
    return Row(
        machine=name,
        recipe=item.recipe.name,
        wanted=item.state,
        state=state,
        port=item.port,
        listen=item.listen,
        engine=item.recipe.engine,
        memory_gib=item.recipe.memory_gib,
        **more,
    )


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


def _facts(item: Planned, place: Place, found: serving.Seen) -> tuple[str, str]:
    have = serving.ENGINES[item.recipe.engine].installed(item, place, found.engine)
    return have.build, have.facts.version if have.facts else ""
