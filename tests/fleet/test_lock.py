"""One converge at a time: the second is told who is at it; dead ones are in nobody's way."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator

import pytest

from tests.e2e import support
from tests.fleet.rollout_site import LOCK, Site, three, until

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with three(tmp_path_factory.mktemp("lock")) as found:
        yield found


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
