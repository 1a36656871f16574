"""All that a machine serves, from one look: what is removed, changed, asked, and whether it stops
something that runs."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import Any

import pytest

from sparkwright import serving
from sparkwright.resources import State
from sparkwright.rollout import Demand
from sparkwright.serve_operations import _run
from sparkwright.serve_turn import Look, Work, cluster_changes, probes, removal, seen, work
from sparkwright.site import UNIT_DIR, Planned
from sparkwright.units import render_unit
from tests.unit.machine_case import ITEM, PLACE, answers, item, service

SERVICE = service(answers())
FILE: State = {
    "type": "file",
    "owner": "root",
    "group": "root",
    "mode": "0644",
    "sha256": hashlib.sha256(render_unit(SERVICE).encode()).hexdigest(),
}
RUNS: State = {
    "ActiveState": "active",
    "UnitFileState": "enabled",
    "NeedDaemonReload": "no",
    "DropInPaths": "",
    "InvocationID": "cafe",
    "digest": SERVICE.digest,
}
OURS = f"{UNIT_DIR}/{SERVICE.name}.service"


def kept(wanted: Planned = ITEM, invocation: str = "cafe") -> State:
    """The record of an answer to the start `cafe`."""
    question = serving.question(wanted, PLACE, answers(RUNS))
    return {"text": json.dumps({"asked": question["asked"], "invocation": invocation})}


def look(unit: State = RUNS, record: State | None = None, ours: str = OURS) -> Look:
    """One recipe's machine."""
    return Look(
        tuple(ours.split()), (answers(unit, FILE),), (kept() if record is None else record,)
    )


def found(at: Look, items: tuple[Planned, ...] = (ITEM,)) -> Work:
    return work(items, PLACE, at)


def test_a_machine_as_wanted_has_nothing_to_do() -> None:
    assert found(look()) == Work(well=(ITEM,))


@pytest.mark.parametrize(
    ("at", "demand", "drift"),
    [
        (look({**RUNS, "digest": "old"}), Demand.SWAP, "runs old, not"),
        (look({**RUNS, "ActiveState": "inactive"}), Demand.START, "inactive, not active"),
        (look({**RUNS, "ActiveState": "failed"}), Demand.START, "failed, not active"),
        (look(record={"type": "missing"}), Demand.START, "has not answered its question"),
        (look(record=kept(invocation="beef")), Demand.START, "has not answered its question"),
        (look({**RUNS, "UnitFileState": "disabled"}), Demand.NOTHING, "disabled, not enabled"),
        (look(ours=f"{OURS} {UNIT_DIR}/llm-old.service"), Demand.SWAP, "no longer in the fleet"),
    ],
    ids=["stale", "off", "failed", "never asked", "asked before", "not at boot", "left over"],
)
def test_what_stops_something_that_runs_needs_a_turn(at: Look, demand: Demand, drift: str) -> None:
    wanted = found(at)
    assert wanted.demand == demand
    assert len(wanted.drift) == 1
    assert drift in wanted.drift[0]


def test_a_first_start_that_stops_a_standby_unit_needs_a_turn() -> None:
    """Conflicts= stops what somebody has started by hand."""
    big = {"memory_gib": 100}
    running = item("first", recipe=big)
    standby = dataclasses.replace(item("tiny", recipe=big), state="standby")
    off = {"ActiveState": "inactive", "UnitFileState": "enabled"}
    for state, demand in (("active", Demand.SWAP), ("inactive", Demand.START)):
        units = (answers(off), answers({**RUNS, "ActiveState": state}, FILE))
        wanted = work((running, standby), PLACE, Look((), units, (kept(), kept(standby))))
        assert wanted.demand == demand


def test_stopping_what_is_standby_now_needs_a_turn_and_comes_before_a_start() -> None:
    standby = dataclasses.replace(ITEM, state="standby")
    wanted = found(look(), (standby,))
    assert wanted.demand == Demand.SWAP
    assert (wanted.unasked, wanted.well) == ((), ())
    ((_, plan),) = wanted.changes
    assert plan.stop
    off = {"ActiveState": "inactive", "UnitFileState": ""}
    first = item("first")
    both = work(
        (first, standby), PLACE, Look((), (answers(off), answers(RUNS, FILE)), (kept(),) * 2)
    )
    ran = [c for c in map(str, _run(both)) if "systemctl" in c and "daemon" not in c]
    assert f"systemctl --quiet stop {ITEM.unit}.service" in ran[0]


def test_a_standby_unit_that_is_off_owes_no_answer() -> None:
    standby = dataclasses.replace(ITEM, state="standby")
    off = {**RUNS, "ActiveState": "inactive", "UnitFileState": "disabled", "digest": ""}
    assert found(look(off, {"type": "missing"}), (standby,)).unasked == ()


def test_units_no_longer_listed_are_removed_and_nothing_else_of_that_folder() -> None:
    """A file below another directory (a drop-in folder, another program's) is not touched."""
    names = ["llm-c", "llm-tiny", "backup/llm-old", "llm-a"]
    text = "".join(f"{UNIT_DIR}/{name}.service\n" for name in names)
    states: list[Any] = [{"rc": 0, "out": text}, kept(), *[{}] * (len(probes([ITEM], PLACE)) - 2)]
    at = seen([ITEM], PLACE, states)
    gone = found(dataclasses.replace(look(), ours=at.ours)).gone
    assert [command.shell for command in removal(gone)] == [
        "systemctl --quiet disable --now llm-a.service",
        "if systemctl --quiet is-failed llm-a.service; then systemctl reset-failed "
        "llm-a.service; fi",
        "rm -f /etc/systemd/system/llm-a.service /var/lib/sparkwright/accepted/llm-a.json",
        "systemctl --quiet disable --now llm-c.service",
        "if systemctl --quiet is-failed llm-c.service; then systemctl reset-failed "
        "llm-c.service; fi",
        "rm -f /etc/systemd/system/llm-c.service /var/lib/sparkwright/accepted/llm-c.json",
        "systemctl daemon-reload",
    ]
    assert removal(()) == []


def test_a_machine_that_serves_nothing_is_asked_for_left_over_units_alone() -> None:
    assert len(probes([], PLACE)) == 1
    assert work([], PLACE, seen([], PLACE, [{"rc": 1, "out": ""}])) == Work()


def test_a_change_of_a_unit_on_one_machine_is_its_own() -> None:
    assert not cluster_changes(found(look({**RUNS, "digest": "old"})))
