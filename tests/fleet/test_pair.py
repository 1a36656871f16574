"""A model on two lab machines: real llama.cpp RPC over the fabric, kept together by its link.

Shown: workers before the head, a second run that changes nothing, a killed worker and a worker
without power after which the pair comes back in order, and standby. What this hardware lacks is
RDMA: llama.cpp's RPC goes over TCP here.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.e2e import support
from tests.lab.lab import Lab, start_lab
from tests.lab.machine import Machine

pytestmark = pytest.mark.lab

RECIPES = Path(__file__).with_name("recipes")
RECIPE = "tiny-pair-llamacpp"
UNIT = f"llm-{RECIPE}.service"
PORT = 8085
CLUSTER = {
    "sparks": ["spark-1", "spark-2"],
    "fabric": {"interfaces": ["fab0", "fab1"]},
    "serve": [RECIPE],
}
# A reboot, 15 s of silence until a member counts as gone, and a load: none takes minutes here.
PATIENCE_S = 240


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with start_lab(machines=2, fabric=2) as found:
        yield found


@pytest.fixture(scope="module")
def fleet(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("pair") / "sparks.yaml"
    lab.write_fleet(place, settings=support.settings(), clusters={"pair-a": CLUSTER})
    values = yaml.safe_load(place.read_text())
    values["recipes"].insert(0, str(RECIPES))
    place.write_text(yaml.safe_dump(values, sort_keys=False))
    summary = support.converge(place)
    assert summary["changed"] > 0
    return place


def show(machine: Machine, *keys: str, unit: str = UNIT) -> list[str]:
    """Properties of a unit, in the order of their names here."""
    words = " ".join(f"-p {key}" for key in keys)
    out = machine.ssh(f"systemctl show {words} {unit}").stdout
    found = dict(line.split("=", 1) for line in out.splitlines())
    return [found[key] for key in keys]


def started(machine: Machine) -> int:
    """Monotonic microseconds of the start; both machines have one kernel and so one clock."""
    return int(show(machine, "ExecMainStartTimestampMonotonic")[0])


def until_answers(lab: Lab, old: str) -> None:
    """Wait for a head that was started after `old` (an invocation) and answers."""
    head, end = lab.machines[0], time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        active, now = show(head, "ActiveState", "InvocationID")
        if active == "active" and now != old:
            assert support.ask(head, PORT, "tiny-pair") == "SPARK"
            return
        time.sleep(1)
    log = head.ssh(
        f"sudo journalctl -o cat -n 40 -u {UNIT} -u {UNIT.replace('.', '-pair.', 1)}"
    ).stdout
    pytest.fail(f"the pair did not come back in {PATIENCE_S} s:\n{log}")


def test_the_head_answers_and_its_layers_are_on_the_worker(lab: Lab, fleet: Path) -> None:
    head, worker = lab.machines
    assert support.ask(head, PORT, "tiny-pair") == "SPARK"
    assert started(worker) < started(head)
    log = head.ssh(f"sudo journalctl -o cat -u {UNIT}").stdout
    assert "RPC0" in log
    # Sockets on the fabric alone: the worker's other addresses do not answer.
    listening = worker.ssh("ss -Hltn").stdout
    assert "192.168.100.11:28585" in listening
    assert "0.0.0.0:28585" not in listening


def test_a_second_run_changes_nothing(lab: Lab, fleet: Path) -> None:
    before = support.processes(lab.machines)
    assert support.converge(fleet)["changed"] == 0
    assert support.processes(lab.machines) == before
    code, report = support.check(fleet)
    assert (code, report["drift"]) == (0, [])


def test_a_killed_worker_brings_the_pair_back_in_order(lab: Lab, fleet: Path) -> None:
    head, worker = lab.machines
    (old,) = show(head, "InvocationID")
    pid = show(worker, "MainPID")[0]
    worker.ssh(f"sudo kill -9 {pid}")
    until_answers(lab, old)
    assert started(worker) < started(head)
    assert support.converge(fleet)["changed"] >= 0
    assert support.check(fleet)[0] == 0


def test_a_killed_head_gets_a_fresh_worker(lab: Lab, fleet: Path) -> None:
    head, worker = lab.machines
    (old,) = show(head, "InvocationID")
    (first,) = show(worker, "InvocationID")
    head.ssh(f"sudo kill -9 {show(head, 'MainPID')[0]}")
    until_answers(lab, old)
    assert show(worker, "InvocationID")[0] != first
    assert started(worker) < started(head)


def test_a_worker_without_power_stops_the_head_and_brings_it_back(lab: Lab, fleet: Path) -> None:
    head, worker = lab.machines
    (old,) = show(head, "InvocationID")
    worker.kill()
    end = time.monotonic() + PATIENCE_S
    while show(head, "ActiveState")[0] == "active" and time.monotonic() < end:
        time.sleep(1)
    assert show(head, "ActiveState")[0] != "active"
    worker.boot()
    until_answers(lab, old)
    assert started(worker) < started(head)


def test_a_stopped_head_leaves_no_half_of_the_model(lab: Lab, fleet: Path) -> None:
    head, worker = lab.machines
    head.ssh(f"sudo systemctl stop {UNIT}")
    end = time.monotonic() + PATIENCE_S
    while show(worker, "ActiveState")[0] == "active" and time.monotonic() < end:
        time.sleep(1)
    assert show(worker, "ActiveState")[0] == "inactive"
    code, report = support.check(fleet)
    assert code == 1
    assert any(UNIT in line for line in support.drift_of(report))
    assert support.converge(fleet)["changed"] > 0
    assert support.ask(head, PORT, "tiny-pair") == "SPARK"


def test_another_build_on_one_side_is_refused_and_the_old_pair_serves(
    lab: Lab, fleet: Path, tmp_path: Path
) -> None:
    values = yaml.safe_load(fleet.read_text())
    flags = values["defaults"]["settings"]["llama_cpp_cmake_flags"]
    values["sparks"]["spark-2"]["settings"] = {"llama_cpp_cmake_flags": [*flags, "-DLLAMA_X=1"]}
    other = fleet.with_name("other.yaml")
    other.write_text(yaml.safe_dump(values, sort_keys=False))
    before = support.process(lab.machines[0], UNIT)
    said = support.refused(other)
    assert "converge the whole cluster in one run" in said or "builds" in said, said
    assert support.process(lab.machines[0], UNIT) == before
