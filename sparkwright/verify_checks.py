"""Checks of a running fleet: what was seen, what was wanted, and how to look closer. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sparkwright import serving, vllm_server, weights_plan
from sparkwright.paths import LIB
from sparkwright.place import place_of
from sparkwright.site import Planned, lock_of, planned
from sparkwright.status_ask import Answer
from sparkwright.status_rows import MachineRow, Row

DOCS: Final = "docs/troubleshooting.md"
WANTED: Final[Mapping[str, str]] = {
    "question": "the answer that the recipe expects",
    "system message": "an answer that obeys it",
    "long answer": "a text that does not repeat itself",
    "log": "the lines of the right backend, and no others",
    "driver": "no error",
    "offline": "every variable that keeps it from the network",
    "weights": "every file as published",
}


@dataclass(frozen=True)
class Check:
    """One check.

    + ok: None when it could not be made
    + look: a command that shows more
    """

    machine: str
    recipe: str
    name: str
    ok: bool | None
    seen: str
    wanted: str
    look: str = ""
    docs: str = ""


def question(
    data: Mapping[str, Any], status: Answer, rows: Sequence[Row], deep: bool
) -> tuple[str, str]:
    """
    What a machine is asked about its running units.

    + status: its answer to status_judge.question, which says what runs
    """
    items = planned(data)
    place, states, units = place_of(data), list(status.said["states"]), []
    for item in items:
        count = len(serving.probes(item, place))
        found, states = serving.seen(states[:count]), states[count:]
        if any(row.recipe == item.recipe.name and row.state == "running" for row in rows):
            launch = serving.launched(item, place, found)[1]
            units.append(
                {
                    "unit": f"{item.unit}.service",
                    "ask": serving.question(item, place, found),
                    "env": {k: v for k, v in launch.env.items() if k in vllm_server.OFFLINE},
                    "weights": _weights(item, data),
                    "deep": deep,
                }
            )
    return "status_verify.py", json.dumps({"lib": LIB, "units": units})


def _weights(item: Planned, data: Mapping[str, Any]) -> Mapping[str, Any] | None:
    if item.weights is None:
        return None
    return weights_plan.spec_of(item.weights, data, lock_of(data).hub)


def checks(machine: MachineRow, answer: Answer | None) -> list[Check]:
    """
    Every check of one machine.

    + answer: to `question`; None when it was not asked
    """
    if not machine.reached or machine.why:
        look = f"sparkwright status --limit {machine.name}"
        return [Check(machine.name, "", "reached", None, machine.why, "an answer", look, DOCS)]
    made = [check for row in machine.rows for check in _of_row(row)]
    running = [row for row in machine.rows if row.state == "running"]
    if answer is None or answer.said is None:
        why = answer.why if answer else "was not asked"
        return made + [_unknown(row, why) for row in running]
    for row, found in zip(running, answer.said, strict=True):
        made += [_check(row, name, told) for name, told in found.items()]
    return made


def _unknown(row: Row, why: str) -> Check:
    look = f"sparkwright status --limit {row.machine}"
    return Check(row.machine, row.recipe, "question", None, why, WANTED["question"], look, DOCS)


def _of_row(row: Row) -> list[Check]:
    logs = f"sparkwright logs {row.recipe} --limit {row.machine}"
    check = f"sparkwright check --limit {row.machine}"
    drift = None if row.drift is None else not row.drift
    seen = row.why if row.drift is None else "; ".join(row.drift) or "no difference"
    return [
        Check(row.machine, row.recipe, "state", row.state in ("running", "standby"), row.state,
              row.wanted, logs, DOCS),
        Check(row.machine, row.recipe, "as wanted", drift, seen, "no difference", check, DOCS),
    ]  # fmt: skip


def _check(row: Row, name: str, told: Mapping[str, Any]) -> Check:
    wrong = told.get("wrong", [])
    look = f"sparkwright logs {row.recipe} --limit {row.machine} --causes"
    if name == "weights":
        look = f"sparkwright check --limit {row.machine} --data verify=deep"
    seen = "; ".join(wrong) or told["seen"]
    return Check(row.machine, row.recipe, name, not wrong, seen, WANTED[name], look, DOCS)


def across(machines: Sequence[MachineRow]) -> list[Check]:
    """The same recipe runs the same build on every machine."""
    builds: dict[str, dict[str, list[str]]] = {}
    for row in (row for machine in machines for row in machine.rows if row.build):
        builds.setdefault(row.recipe, {}).setdefault(str(row.build), []).append(row.machine)
    made = []
    for recipe, found in sorted(builds.items()):
        seen = "; ".join(f"{build} on {', '.join(names)}" for build, names in found.items())
        if sum(map(len, found.values())) > 1:
            made.append(Check("all", recipe, "same build", len(found) == 1, seen, "one build",
                              "sparkwright check", DOCS))  # fmt: skip
    return made


def code(made: Sequence[Check]) -> int:
    """0 all well, 1 something is wrong, 2 something could not be checked."""
    if any(check.ok is None for check in made):
        return 2
    return 0 if all(check.ok for check in made) else 1
