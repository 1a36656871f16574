"""What the fabric's operations do with a machine's answers; nothing is contacted."""

from __future__ import annotations

import hashlib
import json
import subprocess
from types import SimpleNamespace
from typing import Any

import gevent
import pytest
from pyinfra.api import FunctionCommand

from sparkwright import fabric, fabric_operations
from sparkwright.errors import Problems
from tests.unit.fabric_case import cluster, spark, with_addresses

CAGE = ("enp1s0f1np1", "enP2p1s0f1np1")
DATA: dict[str, Any] = {
    "cluster": cluster(),
    "fabric_speed_mbps": 200000,
    "fabric_confirm_s": 60,
    "prefix": "/opt/sparkwright",
    "ssh_hostname": "10.0.0.1",
}
TEXT = fabric.netplan_text(cluster(), fabric.halves(cluster(), 0, spark(), Problems()))


class FakeHost:
    """Stands in for pyinfra's host: it keeps what it is told."""

    name, print_prefix = "a", "[a] "

    def __init__(self) -> None:
        self.noops: list[str] = []

    def noop(self, why: str) -> None:
        self.noops.append(why)


class Bench:
    """A machine that answers, and what came of an operation."""

    def __init__(self) -> None:
        self.host = FakeHost()
        self.drift: list[str] = []
        self.problems: list[str] = []
        self.file: dict[str, Any] = {"type": "missing"}
        self.seen: dict[str, Any] = spark()
        self.here = ["a", "b"]
        self.state = SimpleNamespace(inventory=self, is_executing=False)

    def get_active_hosts(self) -> list[Any]:
        """As pyinfra's inventory: machines that are reached and have not failed."""
        return [SimpleNamespace(name=name) for name in self.here]

    def ask(self, host: object, specs: list[dict[str, Any]]) -> list[dict[str, Any]]:
        out = {"rc": 0, "out": json.dumps(self.seen), "err": ""}
        return [self.file if spec["kind"] == "path" else out for spec in specs]

    def commands(self, operation: Any, **data: Any) -> list[Any]:
        return list(operation._inner(data={**DATA, **data}))


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    made = Bench()
    monkeypatch.setattr(fabric_operations, "current_host", made.host)
    monkeypatch.setattr(fabric_operations, "current_state", made.state)
    monkeypatch.setattr(fabric_operations, "ask", made.ask)
    monkeypatch.setattr(fabric_operations.time, "sleep", lambda seconds: None)
    monkeypatch.setattr(
        fabric_operations.report, "drift", lambda host, found: made.drift.extend(found)
    )
    monkeypatch.setattr(
        fabric_operations.report, "record", lambda kind, host, what: made.problems.append(what)
    )
    return made


def written(text: str, mode: str = "0600") -> dict[str, Any]:
    sha256 = hashlib.sha256(text.encode()).hexdigest()
    return {"type": "file", "mode": mode, "owner": "root", "group": "root", "sha256": sha256}


def shell(command: Any) -> str:
    return str(command.get_raw_value() if hasattr(command, "get_raw_value") else command)


def test_a_machine_as_wanted_is_left_alone(bench: Bench) -> None:
    bench.file, bench.seen = written(TEXT), with_addresses(spark(), 0, *CAGE)
    assert bench.commands(fabric_operations.configured) == []
    assert bench.host.noops == [f"{fabric.FILE} is in force"]


def test_a_change_is_begun_on_the_machine_and_confirmed_from_here(bench: Bench) -> None:
    *commands, last = bench.commands(fabric_operations.configured)
    assert bench.drift[0] == f"{fabric.FILE}: missing, not a file"
    for command in commands:
        subprocess.run(["sh", "-n", "-c", shell(command)], check=True)
    assert "systemctl --quiet stop sparkwright-fabric.service" in shell(commands[0])
    assert shell(commands[-1]).endswith("fabric_apply.py /run/sparkwright/fabric/spec.json")
    assert isinstance(last, FunctionCommand)
    assert last.function is fabric_operations.confirm


def test_a_mode_that_anybody_may_read_is_drift(bench: Bench) -> None:
    bench.file, bench.seen = written(TEXT, "0644"), with_addresses(spark(), 0, *CAGE)
    assert bench.commands(fabric_operations.configured)
    assert bench.drift == [f"{fabric.FILE}: mode is 0644, not 0600"]


def test_what_preflight_would_refuse_changes_nothing(bench: Bench) -> None:
    bench.seen = spark(())
    (only,) = bench.commands(fabric_operations.configured)
    assert shell(only).endswith("exit 1")
    assert bench.problems[0].startswith("fabric: no cable is up at")


OTHER = {**cluster(), "mtu": 1500}  # one of the networks' properties, whichever
WAITS = "fabric: b takes no part in this run, or has another turn (--serial), and the network of"


def test_another_network_waits_for_all_members(bench: Bench) -> None:
    """What runs on the pair would lose its other half."""
    bench.file, bench.seen = written(TEXT), with_addresses(spark(), 0, *CAGE)
    assert bench.commands(fabric_operations.configured, cluster=OTHER)
    assert bench.problems == []
    bench.here = ["a"]
    (only,) = bench.commands(fabric_operations.configured, cluster=OTHER)
    assert shell(only).endswith("exit 1")
    assert bench.problems[0].startswith(WAITS)


def test_with_serial_no_member_is_beside_another(bench: Bench) -> None:
    """pyinfra runs operations in greenlets, but with --serial in its main one."""
    bench.file, bench.seen = written(TEXT), with_addresses(spark(), 0, *CAGE)
    bench.state.is_executing = True
    greenlet = gevent.spawn(bench.commands, fabric_operations.configured, cluster=OTHER)
    assert len(greenlet.get(timeout=20)) > 1
    assert bench.problems == []
    assert len(bench.commands(fabric_operations.configured, cluster=OTHER)) == 1
    assert bench.problems[0].startswith(WAITS)


def test_what_was_there_before_is_mended_without_the_others(bench: Bench) -> None:
    """A lost address, an edited file that is not in force, and the first time of all."""
    bench.here = ["a"]
    assert len(bench.commands(fabric_operations.configured)) > 1
    bench.file = written(TEXT)
    assert len(bench.commands(fabric_operations.configured)) > 1
    bench.file, bench.seen = written("edited"), with_addresses(spark(), 0, *CAGE)
    assert len(bench.commands(fabric_operations.configured)) > 1
    assert bench.problems == []


def test_a_machine_in_no_cluster_has_no_fabric(bench: Bench) -> None:
    assert bench.commands(fabric_operations.left, cluster={}) == []
    bench.file = written(TEXT)
    assert bench.commands(fabric_operations.left, cluster={})
    assert bench.drift == [f"{fabric.FILE}: is in no cluster any more"]
    bench.file = written(fabric_operations.NOTHING)
    assert bench.commands(fabric_operations.left, cluster={}) == []


def test_members_that_answer_are_asked_once(bench: Bench) -> None:
    bench.seen["pings"] = [["192.168.100.10", "192.168.100.11", 8972, "ok"]]
    assert bench.commands(fabric_operations.reached) == []
    bench.seen["pings"][0][3] = "none"
    (prove,) = bench.commands(fabric_operations.reached)
    assert prove.function is fabric_operations.prove
    assert "b at 192.168.100.11 does not answer" in bench.drift[0]


@pytest.mark.parametrize(
    ("answers", "kept", "why"),
    [
        (["", "applied t", "kept t"], True, ""),
        (["applied t", "", "back t netplan apply: no"], False,
         "fabric: netplan apply: no; everything was put back as it was"),
        (["kept other", "kept t"], True, ""),
    ],
)  # fmt: skip
def test_only_the_machines_word_on_this_change_counts(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, answers: list[str], kept: bool, why: str
) -> None:
    left = iter(answers)
    monkeypatch.setattr(fabric_operations, "_login", lambda words: next(left))
    assert fabric_operations.confirm(None, bench.host, DATA, "t", 60) is kept
    assert bench.problems == ([why] if why else [])
    assert list(left) == []


def test_a_machine_that_stays_silent_is_told(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 100_000, 100))
    monkeypatch.setattr(fabric_operations.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(fabric_operations, "_login", lambda words: "")
    assert fabric_operations.confirm(None, bench.host, DATA, "t", 60) is False
    assert bench.problems == [
        "fabric: the change was not confirmed; the machine takes it back 60 s after it: "
        "journalctl -u sparkwright-fabric.service"
    ]
