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
from tests.fleet.pair import Pair
from tests.lab.lab import Lab, start_lab
from tests.lab.machine import Machine

pytestmark = pytest.mark.lab

RECIPES = Path(__file__).with_name("recipes")
# A reboot, 15 s of silence until a member counts as gone, and a load: none takes minutes here.
PATIENCE_S = 240
PAIR = Pair("tiny-pair-llamacpp", 8085, "tiny-pair", PATIENCE_S)
CLUSTER = {
    "sparks": ["spark-1", "spark-2"],
    "fabric": {"interfaces": ["fab0", "fab1"]},
    "serve": [PAIR.recipe],
}


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


def ended(machine: Machine) -> str:
    """Wait for the unit to be active no more; what it is."""
    end = time.monotonic() + PATIENCE_S
    while (state := PAIR.show(machine, "ActiveState")[0]) == "active" and time.monotonic() < end:
        time.sleep(1)
    return state


def test_the_head_answers_and_its_layers_are_on_the_worker(lab: Lab, fleet: Path) -> None:
    head, worker = lab.machines
    assert PAIR.answer(head) == "SPARK"
    assert PAIR.started(worker) < PAIR.started(head)
    log = head.ssh(f"sudo journalctl -o cat -u {PAIR.unit}").stdout
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
    (old,) = PAIR.show(head, "InvocationID")
    pid = PAIR.show(worker, "MainPID")[0]
    worker.ssh(f"sudo kill -9 {pid}")
    assert PAIR.until_answers(lab.machines, old) == "SPARK"
    assert PAIR.started(worker) < PAIR.started(head)
    assert support.converge(fleet)["changed"] >= 0
    assert support.check(fleet)[0] == 0


def test_a_killed_head_gets_a_fresh_worker(lab: Lab, fleet: Path) -> None:
    head, worker = lab.machines
    (old,) = PAIR.show(head, "InvocationID")
    (first,) = PAIR.show(worker, "InvocationID")
    head.ssh(f"sudo kill -9 {PAIR.show(head, 'MainPID')[0]}")
    assert PAIR.until_answers(lab.machines, old) == "SPARK"
    assert PAIR.show(worker, "InvocationID")[0] != first
    assert PAIR.started(worker) < PAIR.started(head)


def test_a_worker_without_power_stops_the_head_and_brings_it_back(lab: Lab, fleet: Path) -> None:
    head, worker = lab.machines
    (old,) = PAIR.show(head, "InvocationID")
    worker.kill()
    assert ended(head) != "active"
    worker.boot()
    assert PAIR.until_answers(lab.machines, old) == "SPARK"
    assert PAIR.started(worker) < PAIR.started(head)


def test_a_stopped_head_leaves_no_half_of_the_model(lab: Lab, fleet: Path) -> None:
    head, worker = lab.machines
    head.ssh(f"sudo systemctl stop {PAIR.unit}")
    assert ended(worker) == "inactive"
    code, report = support.check(fleet)
    assert code == 1
    assert any(PAIR.unit in line for line in support.drift_of(report))
    assert support.converge(fleet)["changed"] > 0
    assert PAIR.answer(head) == "SPARK"


def test_a_pair_that_is_standby_now_stops_on_both(lab: Lab, fleet: Path) -> None:
    head, worker = lab.machines
    values = yaml.safe_load(fleet.read_text())
    values["clusters"]["pair-a"]["serve"] = [{"recipe": PAIR.recipe, "state": "standby"}]
    standby = fleet.with_name("standby.yaml")
    standby.write_text(yaml.safe_dump(values, sort_keys=False))
    summary = support.converge(standby)
    assert f"{PAIR.unit}: runs, and is standby now" in [row["what"] for row in summary["changes"]]
    assert PAIR.show(head, "ActiveState")[0] == "inactive"
    assert ended(worker) == "inactive"
    assert support.converge(standby)["changed"] == 0
    assert support.converge(fleet)["changed"] > 0
    assert PAIR.answer(head) == "SPARK"


def test_another_build_on_one_side_is_refused_and_the_old_pair_serves(
    lab: Lab, fleet: Path, tmp_path: Path
) -> None:
    values = yaml.safe_load(fleet.read_text())
    flags = values["defaults"]["settings"]["llama_cpp_cmake_flags"]
    values["sparks"]["spark-2"]["settings"] = {"llama_cpp_cmake_flags": [*flags, "-DLLAMA_X=1"]}
    other = fleet.with_name("other.yaml")
    other.write_text(yaml.safe_dump(values, sort_keys=False))
    before = support.process(lab.machines[0], PAIR.unit)
    said = support.refused(other)
    assert "converge the whole cluster in one run" in said or "builds" in said, said
    assert support.process(lab.machines[0], PAIR.unit) == before
