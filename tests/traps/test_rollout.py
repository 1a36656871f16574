"""A rollout that fails goes on nowhere, whatever options pyinfra is given (pyinfra#1195)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.traps.runs import Done, Fakes

HOSTS = [f"@fake/spark-{number}" for number in range(1, 7)]
ONE, TWO, THREE = HOSTS[:3]
OLD = {"ActiveState": "active", "UnitFileState": "enabled", "digest": "old", "InvocationID": "beef"}
STALE = ['"name": "llm-tiny.service"', OLD]
ASKED = '"python3", "/opt/sparkwright/lib/ask.py"'
GOOD = {"content": "4", "wrong": [], "ready_s": 1.5, "ttft_s": 0.1, "total_s": 0.2}
BAD = {**GOOD, "content": "5", "wrong": ["content '5' lacks '4'"]}


def machine(answer: dict[str, Any] = GOOD, **more: Any) -> dict[str, Any]:
    """A machine whose service is not the wanted one, and what it answers after its restart."""
    return {"answers": [STALE, [ASKED, {"rc": 0, "out": json.dumps(answer)}]], **more}


def restarted(fakes: Fakes) -> list[str]:
    """Machines whose service was restarted, in order."""
    rows = [json.loads(line) for line in (fakes.root / "log").read_text().splitlines()]
    return [host for host, command in rows if "systemctl restart" in command]


def ends(fakes: Fakes) -> dict[str, str]:
    """What the run's own report says of each machine."""
    return {row["host"]: row["what"] for row in fakes.findings() if row["kind"] == "rollout"}


def run(tmp_path: Path, hosts: dict[str, Any], *words: str, **data: Any) -> tuple[Fakes, Done]:
    fakes = Fakes.write(tmp_path, hosts, **data)
    return fakes, fakes.pyinfra("-y", *words)


@pytest.mark.parametrize("words", [[], ["--serial"], ["--parallel", "2"], ["--parallel", "1"]])
def test_machines_are_taken_in_the_fleets_order(tmp_path: Path, words: list[str]) -> None:
    """pyinfra takes them as a set gives them; with six, the order is right by chance in 1 of 720"""
    fakes, done = run(tmp_path, {name: machine() for name in HOSTS}, *words)
    assert done.returncode == 0, done.stderr
    assert restarted(fakes) == HOSTS
    assert ends(fakes) == dict.fromkeys(HOSTS, "done")


@pytest.mark.parametrize("words", [[], ["--serial"], ["--parallel", "2"], ["--retry", "1"]])
def test_the_first_failure_leaves_the_others_alone(tmp_path: Path, words: list[str]) -> None:
    hosts = {ONE: machine(), TWO: machine(BAD), THREE: machine()}
    extra = ["--retry-delay", "0"] if "--retry" in words else []
    fakes, done = run(tmp_path, hosts, *words, *extra)
    assert done.returncode == 1
    assert set(restarted(fakes)) == {ONE, TWO}
    assert ends(fakes) == {ONE: "done", TWO: "failed", THREE: "untouched"}
    assert f"[{THREE}] {THREE}: rollout: stopped, {TWO} failed; nothing that runs" in done.stderr


def test_our_own_command_says_it_per_machine(tmp_path: Path) -> None:
    hosts = {ONE: machine(BAD), TWO: machine(), THREE: machine()}
    fakes = Fakes.write(tmp_path, hosts)
    done = fakes.sparkwright("converge", "--json")
    assert done.returncode == 2
    summary = json.loads(done.stdout)
    assert summary["rollout"] == {ONE: "failed", TWO: "untouched", THREE: "untouched"}
    assert restarted(fakes) == [ONE]
    done = fakes.sparkwright("converge")
    assert f"rollout: failed {ONE}; untouched {TWO}, {THREE}" in done.stdout.splitlines()


def test_a_machine_is_left_out_as_the_message_says(tmp_path: Path) -> None:
    fakes = Fakes.write(tmp_path, {ONE: machine(BAD), TWO: machine(), THREE: machine()})
    done = fakes.sparkwright("converge", "--exclude", ONE)
    assert done.returncode == 0, done.stderr
    assert restarted(fakes) == [TWO, THREE]


def test_a_machine_that_answered_wrong_is_proved_before_the_next_is_touched(tmp_path: Path) -> None:
    """The second run finds the failed machine's unit as wanted: only its answer is owed."""
    owed = [["accepted/llm-tiny.json", {"type": "missing"}], *machine(BAD)["answers"][1:]]
    fakes, done = run(tmp_path, {ONE: machine(), TWO: {"answers": owed}})
    assert done.returncode == 1
    assert restarted(fakes) == []
    assert ends(fakes) == {ONE: "untouched", TWO: "failed"}


def test_a_batch(tmp_path: Path) -> None:
    hosts = {name: machine(BAD if name == ONE else GOOD) for name in HOSTS}
    fakes, done = run(tmp_path, hosts, rollout_batch=2)
    assert done.returncode == 1
    assert set(restarted(fakes)) == {ONE, TWO}


def test_a_machine_that_failed_before_does_not_stop_its_neighbours(tmp_path: Path) -> None:
    broken = {**machine(), "nonsense": ["sysctl"]}
    fakes, done = run(tmp_path, {ONE: broken, TWO: machine(), THREE: machine()})
    assert done.returncode == 1
    assert restarted(fakes) == [TWO, THREE]


def test_a_machine_lost_while_it_is_asked_does_not_hold_up_the_others(tmp_path: Path) -> None:
    """The others wait for what it has to do; it never says so."""
    lost = {**machine(), "nonsense": ["accepted/llm-tiny.json"]}
    fakes, done = run(tmp_path, {ONE: lost, TWO: machine(), THREE: machine()})
    assert done.returncode == 1
    assert restarted(fakes) == [TWO, THREE]
    assert ends(fakes) == {ONE: "lost", TWO: "done", THREE: "done"}


def test_a_removal_has_its_turn_and_a_failed_successor_stops_the_others(tmp_path: Path) -> None:
    """Else every machine would lose the old model before the new one is proved on one."""
    old = ['"grep", "-l"', {"rc": 0, "out": "/etc/systemd/system/llm-old.service\n"}]
    down = {"ActiveState": "inactive", "UnitFileState": "disabled"}

    def successor(answer: dict[str, Any]) -> dict[str, Any]:
        return {"answers": [old, [STALE[0], down], [ASKED, {"rc": 0, "out": json.dumps(answer)}]]}

    fakes = Fakes.write(tmp_path, {ONE: successor(BAD), TWO: successor(GOOD)})
    done = fakes.pyinfra("-y")
    assert done.returncode == 1
    rows = [json.loads(line) for line in (fakes.root / "log").read_text().splitlines()]
    assert {host for host, command in rows if "disable --now" in command} == {ONE}
