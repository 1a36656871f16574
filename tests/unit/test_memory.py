"""Memory budgets: what is refused, and who excludes whom."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkwright.errors import SparkwrightError
from sparkwright.memory import MemoryPlan, Need, plan


def test_running_units_are_summed_and_refused_with_numbers() -> None:
    with pytest.raises(SparkwrightError) as error:
        plan([Need("llm-b", 30, "running"), Need("llm-a", 70.5, "running")], 100, "spark-1/serve")
    assert str(error.value) == (
        "spark-1/serve: running units need 100.5 GiB together (llm-a 70.5 + llm-b 30), the machine "
        "has 100 GiB for them; set state: standby for some, or serve them from another spark"
    )


def test_exactly_full_fits() -> None:
    fits = plan([Need("a", 0.1, "running"), Need("b", 0.2, "running")], 0.3)
    assert fits == MemoryPlan(0.3, 0.3, {"a": (), "b": ()})


def test_one_unit_too_big_is_refused_in_every_state() -> None:
    with pytest.raises(SparkwrightError) as error:
        plan([Need("a", 120, "running"), Need("b", 110, "standby")], 107)
    assert str(error.value).splitlines() == [
        "memory/a: needs 120 GiB, the machine has 107 GiB for units; lower its context or "
        "memory_gib, or choose a smaller model",
        "memory/b: needs 110 GiB, the machine has 107 GiB for units; lower its context or "
        "memory_gib, or choose a smaller model",
    ]


def test_bad_input_is_collected() -> None:
    with pytest.raises(SparkwrightError) as error:
        plan([Need("a", 0, "running"), Need("a", float("nan"), "off")], 10)
    assert str(error.value).splitlines() == [
        "memory/a: memory_gib is 0; give a budget above 0",
        "memory/a: is listed twice; remove one, or rename one",
        "memory/a: state is 'off'; say running or standby",
        "memory/a: memory_gib is nan; give a budget above 0",
    ]


def test_standby_that_does_not_fit_excludes_all_running_ones() -> None:
    served = [Need("big", 90, "standby"), Need("r2", 20, "running"), Need("r1", 20, "running")]
    assert plan(served, 107).conflicts == {"r1": (), "r2": (), "big": ("r1", "r2")}


def test_standbys_exclude_each_other_unless_everything_fits() -> None:
    served = [Need("r", 20, "running"), Need("s1", 40, "standby"), Need("s2", 40, "standby")]
    assert plan(served, 107).conflicts == {"r": (), "s1": (), "s2": ()}
    assert plan(served, 90).conflicts == {"r": (), "s1": (), "s2": ("s1",)}


NEEDS = st.lists(
    st.tuples(st.integers(1, 60), st.sampled_from(["running", "standby"])), min_size=1, max_size=6
).map(lambda rows: [Need(f"u{n}", gib, state) for n, (gib, state) in enumerate(rows)])


@given(served=NEEDS)
def test_no_set_that_may_run_together_exceeds_the_machine(served: list[Need]) -> None:
    """Every subset without a conflict fits; and no unit names one that names it back."""
    try:
        conflicts = plan(served, 100).conflicts
    except SparkwrightError:
        running = sum(need.memory_gib for need in served if need.state == "running")
        assert running > 100
        return
    assert not [(a, b) for a in conflicts for b in conflicts[a] if a in conflicts[b]]
    for size in range(1, len(served) + 1):
        for group in itertools.combinations(served, size):
            names = {need.name for need in group}
            if not any(names & set(conflicts[name]) for name in names):
                assert sum(need.memory_gib for need in group) <= 100
