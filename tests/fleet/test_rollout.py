"""A bad change stops at the first of three machines; a good one goes on to all.

Case S15 as well: what serves is a system unit, and goes on when the SSH session has ended.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e import support
from tests.fleet.rollout_site import UNIT, Site, three

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with three(tmp_path_factory.mktemp("rollout")) as found:
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
        done = support.pyinfra(fleet)
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
