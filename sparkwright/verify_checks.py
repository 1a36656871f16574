"""Checks of a running fleet: what was seen, what was wanted, and how to look closer. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sparkwright import llama_server, serving, vllm_server, weights_plan
from sparkwright.paths import LIB
from sparkwright.place import place_of
from sparkwright.site import Planned, lock_of, planned
from sparkwright.status_ask import Answer
from sparkwright.status_rows import MachineRow, Row

OFFLINE: Final = {*vllm_server.OFFLINE, *llama_server.OFFLINE}
DOCS: Final = "docs/troubleshooting.md"
# Where the documents say more, by check; a test looks for each heading.
ANCHORS: Final[Mapping[str, str]] = {
    "reached": "login-and-sudo",
    "as wanted": "check-and-converge",
    "weights": "weights",
    "fabric": "clusters",
    "same versions": "clusters",
}
WANTED: Final[Mapping[str, str]] = {
    "question": "the answer that the recipe expects",
    "system message": "an answer that obeys it",
    "long answer": "a text that does not repeat itself",
    "log": "the lines of the right backend, and no others",
    "driver": "no error",
    "offline": "every variable that keeps it from the network",
    "weights": "every file as published",
    "fabric": "every member over every link, with whole packets",
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
    name: str, data: Mapping[str, Any], status: Answer, rows: Sequence[Row], deep: bool
) -> tuple[str, str]:
    """
    What a machine is asked about its running units, and about its links in a cluster.

    + status: its answer to status_judge.question, which says what runs
    """
    items = planned(data)
    place, states, units = place_of(data), list(status.said["states"]), []
    for item in items:
        count = len(serving.probes(item, place))
        found, states = serving.seen(item, states[:count]), states[count:]
        if any(row.recipe == item.recipe.name and row.state == "running" for row in rows):
            launch = serving.launched(item, place, found)[1]
            units.append(
                {
                    "unit": f"{item.unit}.service",
                    "ask": serving.question(item, place, found),
                    "env": {k: v for k, v in launch.env.items() if k in OFFLINE},
                    "weights": _weights(item, data),
                    "deep": deep,
                }
            )
    spec = {"lib": LIB, "units": units, "fabric": fabric(name, data)}
    return "status_verify.py", json.dumps(spec)


def fabric(name: str, data: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What is asked of a member of a cluster about its links; None for a machine in none."""
    cluster = data.get("cluster") or {}
    places = {member["name"]: member["fabric"] for member in cluster.get("members", ())}
    own = places.pop(name, None)
    return {"mtu": cluster["mtu"], "own": own, "others": places} if own else None


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
        return [_made(machine.name, "", "reached", None, machine.why, "an answer", look)]
    made = [check for row in machine.rows for check in _of_row(row)]
    running = [row for row in machine.rows if row.state == "running"]
    if answer is None or answer.said is None:
        why = answer.why if answer else "was not asked"
        return made + [_unknown(row, why) for row in running]
    for row, found in zip(running, answer.said["units"], strict=True):
        made += [_check(row, name, told) for name, told in found.items()]
    return [*made, *_of_machine(machine.name, answer.said["machine"])]


def _made(
    machine: str, recipe: str, name: str, ok: bool | None, seen: str, wanted: str, look: str
) -> Check:
    """A check with its place in the documents."""
    docs = f"{DOCS}#{ANCHORS.get(name, 'services')}"
    return Check(machine, recipe, name, ok, seen, wanted, look, docs)


def _of_machine(machine: str, said: Mapping[str, Any]) -> list[Check]:
    """Checks of the machine itself."""
    made, look = [], f"sparkwright doctor network --limit {machine}"
    for name, told in said.items():
        wrong, why = "; ".join(told.get("wrong", [])), told.get("unknown")
        seen = why or wrong or told["seen"]
        made.append(_made(machine, "", name, None if why else not wrong, seen, WANTED[name], look))
    return made


def _unknown(row: Row, why: str) -> Check:
    look = f"sparkwright status --limit {row.machine}"
    return _made(row.machine, row.recipe, "question", None, why, WANTED["question"], look)


def _of_row(row: Row) -> list[Check]:
    logs = f"sparkwright logs {row.recipe} --limit {row.machine}"
    check = f"sparkwright check --limit {row.machine}"
    drift = None if row.drift is None else not row.drift
    seen = row.why if row.drift is None else "; ".join(row.drift) or "no difference"
    return [
        _made(row.machine, row.recipe, "state", row.state in ("running", "standby"), row.state,
              row.wanted, logs),
        _made(row.machine, row.recipe, "as wanted", drift, seen, "no difference", check),
    ]  # fmt: skip


def _check(row: Row, name: str, told: Mapping[str, Any]) -> Check:
    wrong, why = told.get("wrong", []), told.get("unknown")
    look = f"sparkwright logs {row.recipe} --limit {row.machine} --causes"
    if name == "weights":
        look = f"sparkwright check --limit {row.machine} --data verify=deep"
    seen, ok = "; ".join(wrong) or why or told["seen"], None if why and not wrong else not wrong
    return _made(row.machine, row.recipe, name, ok, seen, WANTED[name], look)


def across(machines: Sequence[MachineRow], answers: Sequence[Answer] = ()) -> list[Check]:
    """The same recipe runs the same build everywhere; members of a cluster are alike.

    + answers: to `question`
    """
    builds: dict[str, dict[str, list[str]]] = {}
    for row in (row for machine in machines for row in machine.rows if row.build):
        builds.setdefault(row.recipe, {}).setdefault(str(row.build), []).append(row.machine)
    clusters: dict[str, dict[str, list[str]]] = {}
    for answer in answers:
        cluster = answer.data.get("cluster") or {}
        if cluster and answer.said is not None:
            said = ", ".join(f"{part} {v}" for part, v in sorted(answer.said["versions"].items()))
            clusters.setdefault(cluster["name"], {}).setdefault(said, []).append(answer.name)
    return [*_alike("same build", builds), *_alike("same versions", clusters)]


def _alike(name: str, found: Mapping[str, Mapping[str, Sequence[str]]]) -> list[Check]:
    """
    + found: recipe or cluster -> what it has -> machines that have it
    """
    made = []
    for which, kinds in sorted(found.items()):
        seen = "; ".join(f"{kind} on {', '.join(names)}" for kind, names in kinds.items())
        if sum(map(len, kinds.values())) > 1:
            made.append(
                _made("all", which, name, len(kinds) == 1, seen, "one", "sparkwright check")
            )
    return made


def code(made: Sequence[Check]) -> int:
    """0 all well, 1 something is wrong, 2 something could not be checked."""
    if any(check.ok is None for check in made):
        return 2
    return 0 if all(check.ok for check in made) else 1
