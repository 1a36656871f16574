"""What the machines of one run share is made once for each run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import gevent
import pytest
from pyinfra.api import State

from sparkwright import per_run


def names(state: Any) -> list[str]:
    return [state.name]


def run(name: str) -> Any:
    return SimpleNamespace(name=name, inventory=SimpleNamespace())


def test_a_value_is_its_runs_and_is_made_once() -> None:
    one, two = run("one"), run("two")
    assert per_run.known(one, names) is None
    assert per_run.known(State, names) is None  # pyinfra.state without a run
    kept = per_run.of(one, names)
    assert kept == ["one"]
    assert per_run.of(one, names) is kept
    assert per_run.known(one, names) is kept
    assert per_run.of(two, names) == ["two"]
    # Another object that stands for the same run, as pyinfra.state does.
    assert per_run.of(SimpleNamespace(inventory=one.inventory), names) is kept


def test_all_wait_for_the_first_and_get_its_result() -> None:
    once, came = per_run.Once[str](), list[int]()

    def work() -> str:
        came.append(1)
        gevent.sleep(0.02)
        return "done"

    jobs = [gevent.spawn(once.get, work) for _ in range(3)]
    gevent.joinall(jobs, timeout=20)
    assert [job.value for job in jobs] == ["done"] * 3
    assert came == [1]


def test_all_get_what_the_first_one_raised() -> None:
    once = per_run.Once[str]()

    def work() -> str:
        gevent.sleep(0.02)
        raise ValueError("broken")

    jobs = [gevent.spawn(once.get, work) for _ in range(2)]
    gevent.joinall(jobs, timeout=20)
    assert [str(job.exception) for job in jobs] == ["broken"] * 2
    with pytest.raises(ValueError, match="broken"):
        once.get(lambda: "never asked")
