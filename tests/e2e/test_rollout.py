"""Three machines: a bad change stops at the first, one converge at a time, a lost member.

Case S15 as well: what serves is a system unit, and goes on when the SSH session has ended.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e import support
from tests.e2e.support import PROGRAM, PROJECT, Process
from tests.lab.lab import Lab, start_lab

pytestmark = pytest.mark.lab

RECIPE = "tiny-llama-llamacpp"
UNIT = f"llm-{RECIPE}.service"
PORT = 8081
LOCK = "/run/sparkwright/lock"


class Site:
    """Three converged machines that serve the same recipe, out of a recipe file of the test's."""

    def __init__(self, lab: Lab, place: Path) -> None:
        self.lab, self.place = lab, place
        self.names = [machine.name for machine in lab.machines]
        (place / "recipes").mkdir()
        self.recipe = yaml.safe_load((PROJECT / f"tests/lab/recipes/{RECIPE}.yaml").read_text())
        self.recipe["flags"]["flash-attn"] = "on"  # PyYAML reads on as true
        self.fleet = self.write()

    def write(self, name: str = "sparks.yaml", **changes: Any) -> Path:
        """A fleet file whose recipe has these changes."""
        folder = self.place / f"recipes-{name}"
        folder.mkdir(exist_ok=True)
        (folder / f"{RECIPE}.yaml").write_text(yaml.safe_dump({**self.recipe, **changes}))
        serve = {machine: [RECIPE] for machine in self.names}
        path = self.lab.write_fleet(self.place / name, serve)
        return self.edit(path, recipes=[str(folder)])

    def edit(self, path: Path, **top: Any) -> Path:
        """Other keys at the top of a fleet file."""
        path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), **top}))
        return path

    def processes(self) -> dict[str, Process]:
        return support.processes(self.lab.machines)

    def answers(self) -> list[str]:
        return [support.ask(m, PORT, "tiny-llama").strip() for m in self.lab.machines]

    def locks(self) -> list[str]:
        """Machines that are locked."""
        found = [(m.name, m.ssh(f"cat {LOCK}", check=False).stdout) for m in self.lab.machines]
        return [name for name, text in found if text]

    def start(self, fleet: Path) -> subprocess.Popen[str]:
        """A converge in the background, in a process group of its own."""
        return subprocess.Popen(
            [PROGRAM, "converge", "--json"],
            cwd=PROJECT, env={**os.environ, "SPARKS_FILE": str(fleet)},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True,
        )  # fmt: skip


def until(condition: Callable[[], bool], what: str, seconds: float = 120) -> None:
    """Wait for something on the machines."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.2)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with start_lab(machines=3) as lab:
        found = Site(lab, tmp_path_factory.mktemp("rollout"))
        support.converge(found.fleet)
        yield found


def wrong(site: Site) -> Path:
    """Another context makes another process; the model cannot give this answer."""
    accept = {**site.recipe["acceptance"], "expect": "WRONG"}
    return site.write("wrong.yaml", context=1024, acceptance=accept)


@pytest.mark.parametrize("program", ["sparkwright", "pyinfra"])
def test_a_bad_change_stops_at_the_first_machine(site: Site, program: str) -> None:
    """Cases N07 and pyinfra#1195: the others go on with the service that they had."""
    before = site.processes()
    fleet = wrong(site)
    if program == "sparkwright":
        done = support.sparkwright(fleet, "converge", "--json")
        assert done.returncode == 2
        ends = json.loads(done.stdout)["rollout"]
        assert ends == {"spark-1": "failed", "spark-2": "untouched", "spark-3": "untouched"}
    else:
        done = subprocess.run(
            [Path(PROGRAM).with_name("pyinfra"), "inventory.py", "deploy.py", "-y"],
            cwd=PROJECT, env={**os.environ, "SPARKS_FILE": str(fleet)},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 1
        assert "untouched: spark-2, spark-3" in done.stderr
    after = site.processes()
    assert after[f"spark-1/{UNIT}"] != before[f"spark-1/{UNIT}"]
    for name in ("spark-2", "spark-3"):
        assert after[f"{name}/{UNIT}"] == before[f"{name}/{UNIT}"]
    assert site.answers() == ["SPARK"] * 3
    support.converge(site.fleet)


def test_a_second_run_after_a_failure_touches_no_other_machine(site: Site) -> None:
    """The first machine's unit is as wanted then: only its answer is owed."""
    fleet = wrong(site)
    before = site.processes()
    for _ in range(2):
        assert support.sparkwright(fleet, "converge").returncode == 2
    after = site.processes()
    changed = {name for name in before if after[name] != before[name]}
    assert changed == {f"spark-1/{UNIT}"}
    support.converge(site.fleet)


def test_a_good_change_goes_on_to_all(site: Site) -> None:
    summary = support.converge(site.write("good.yaml", context=1024))
    assert summary["rollout"] == dict.fromkeys(site.names, "done")
    started = [int(site.processes()[f"{name}/{UNIT}"].started) for name in site.names]
    assert started == sorted(started)
    assert support.converge(site.write("good.yaml", context=1024))["changed"] == 0
    support.converge(site.fleet)


def test_a_served_process_outlives_the_session_that_started_it(site: Site) -> None:
    """Case S15: never a child of the SSH session, whose end removes semaphores and more."""
    before = site.processes()
    for machine in site.lab.machines:
        group = machine.ssh(f"cat /proc/{before[f'{machine.name}/{UNIT}'].pid}/cgroup").stdout
        assert group.strip().endswith(f"/system.slice/{UNIT}")
        machine.ssh("sudo pkill -KILL -u spark; true", check=False)  # every session of the user
    assert site.processes() == before
    assert site.answers() == ["SPARK"] * 3


def test_two_converges_at_once(site: Site) -> None:
    """The second is told who is at it, changes nothing, and works when the first is over."""
    first = site.start(site.write("slow.yaml", context=1024))
    until(lambda: len(site.locks()) == 3, "the first has its locks")
    second = support.sparkwright(site.fleet, "converge", "--json")
    assert second.returncode == 2, second.stdout
    said = [row["what"] for row in json.loads(second.stdout)["problems"]]
    for name in site.names:
        assert any(what.startswith(f"{name}: locked by ") for what in said), said
    assert json.loads(second.stdout)["changed"] == 0
    code, report = support.check(site.fleet)
    assert code in (0, 1), report
    out, err = first.communicate(timeout=300)
    assert first.returncode == 0, err[-3000:]
    assert json.loads(out)["rollout"] == dict.fromkeys(site.names, "done")
    assert site.locks() == []
    support.converge(site.fleet)


def test_two_that_come_at_the_same_moment(site: Site) -> None:
    """One has all machines or both have none, and nothing is left locked."""
    runs = [site.start(site.fleet), site.start(site.fleet)]
    ends = [run.communicate(timeout=300) and run.returncode for run in runs]
    assert set(ends) <= {0, 2}
    assert site.locks() == []
    assert support.converge(site.fleet)["changed"] == 0


def test_a_killed_converge_holds_up_nobody_on_its_own_laptop(site: Site) -> None:
    run = site.start(site.write("killed.yaml", context=1024))
    until(lambda: len(site.locks()) == 3, "it has its locks")
    os.killpg(run.pid, signal.SIGKILL)
    run.communicate()
    assert len(site.locks()) == 3
    support.converge(site.fleet)
    assert site.locks() == []


def test_an_interrupted_converge_releases_its_locks(site: Site) -> None:
    run = site.start(site.write("interrupted.yaml", context=1024))
    until(lambda: len(site.locks()) == 3, "it has its locks")
    os.killpg(run.pid, signal.SIGINT)
    run.communicate(timeout=60)
    assert run.returncode == 130
    assert site.locks() == []
    support.converge(site.fleet)


def test_another_laptops_silent_lock_is_taken_over_with_a_note(site: Site) -> None:
    record = {"run": "other", "user": "eve", "host": "elsewhere", "boot": "b", "since": "noon"}
    fresh = {**record, "renewed": time.time(), "beat": time.clock_gettime(time.CLOCK_BOOTTIME)}
    two = site.lab.machines[1]
    two.ssh(f"sudo install -d /run/sparkwright; sudo tee {LOCK}", input=json.dumps(fresh))
    done = support.sparkwright(site.fleet, "converge")
    assert done.returncode == 2
    assert "spark-2: locked by eve@elsewhere since noon" in done.stdout
    assert site.locks() == ["spark-2"]
    two.ssh(f"sudo tee {LOCK}", input=json.dumps({**record, "renewed": 1, "beat": 1}))
    done = support.sparkwright(site.fleet, "converge")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "spark-2: took over the lock of a run that is gone (eve@elsewhere" in done.stderr
    assert site.locks() == []


INVENTORY = """
from pathlib import Path as _Path

from sparkwright.fleet_pyinfra import groups_for_pyinfra as _groups_for_pyinfra

_groups = _groups_for_pyinfra(_Path({project!r}))
_members = [{{"name": name, "address": "", "fabric": []}} for name in ("spark-1", "spark-2")]
for _name, _data in _groups["sparks"][:2]:
    _data["cluster"] = {{"name": "a", "members": _members, "serve": [{{"recipe": {recipe!r}}}]}}
globals().update(_groups)
"""


def test_an_unreachable_member_blocks_its_cluster_and_not_its_neighbour(site: Site) -> None:
    """Case N07. The first two are a cluster that runs the recipe together; that is data here."""
    inventory = site.place / "inventory.py"
    inventory.write_text(INVENTORY.format(project=str(PROJECT), recipe=RECIPE))
    before = site.processes()
    fleet = site.write("pair.yaml", context=1024)
    site.lab.machines[1].link_down()
    try:
        done = support.sparkwright(fleet, "converge", "--json", "--inventory", str(inventory))
    finally:
        site.lab.machines[1].link_up()
    assert done.returncode == 2
    summary = json.loads(done.stdout)
    assert summary["rollout"] == {"spark-1": "untouched", "spark-3": "done"}, summary
    said = "spark-1: cluster a: spark-2 takes no part in this run"
    assert any(row["what"].startswith(said) for row in summary["problems"])
    after = site.processes()
    assert {name for name in before if after[name] != before[name]} == {f"spark-3/{UNIT}"}
    assert site.answers() == ["SPARK"] * 3
    support.converge(site.fleet)
