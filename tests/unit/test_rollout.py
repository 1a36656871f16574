"""Turns: who may replace what runs, when, and what a failure leaves alone."""

from __future__ import annotations

from sparkwright.rollout import GO, WAIT, Demand, Member, Rollout

SWAP, START, NOTHING = Demand.SWAP, Demand.START, Demand.NOTHING


def three(batch: int = 1, **demands: Demand) -> Rollout:
    """Machines a, b, c that have said what they have to do."""
    rollout = Rollout(batch)
    rollout.expect([Member(name, name) for name in ("a", "b", "c")])
    for name, demand in demands.items():
        rollout.decide(name, demand)
    return rollout


def may(rollout: Rollout, names: str = "abc") -> list[str]:
    """Who may begin now: GO, WAIT, or the first word of a refusal."""
    return [rollout.may(name).split(":")[0] for name in names]


def test_running_services_are_replaced_one_after_the_other() -> None:
    rollout = three(a=SWAP, b=SWAP, c=SWAP)
    assert may(rollout) == [GO, WAIT, WAIT]
    rollout.finish("a", good=True)
    assert may(rollout, "cb") == [WAIT, GO]
    rollout.finish("b", good=True)
    assert may(rollout, "c") == [GO]
    rollout.finish("c", good=True)
    assert rollout.summary() == {"a": "done", "b": "done", "c": "done"}


def test_a_failure_leaves_the_others_alone() -> None:
    rollout = three(a=SWAP, b=SWAP, c=NOTHING)
    assert may(rollout, "ac") == [GO, GO]
    rollout.finish("a", good=False)
    refusal = rollout.may("b")
    assert refusal.startswith("rollout: stopped, a failed; nothing that runs here was touched")
    assert "--exclude a" in refusal
    rollout.finish("b", good=False)
    rollout.finish("c", good=True)
    assert rollout.summary() == {"a": "failed", "b": "untouched"}


def test_nobody_begins_to_replace_before_all_have_said_what_they_have_to_do() -> None:
    """The first in order may be the last to say so."""
    rollout = three(b=SWAP)
    assert may(rollout, "b") == [WAIT]
    rollout.decide("a", SWAP)
    assert may(rollout, "ab") == [WAIT, WAIT]
    rollout.finish("c", good=False)  # it was lost before it could say anything
    assert may(rollout, "ba") == [WAIT, GO]
    assert rollout.summary()["c"] == "lost"
    rollout.finish("a", good=True)
    assert may(rollout, "b") == [GO]


def test_first_starts_wait_for_nobody_and_replacements_wait_for_them() -> None:
    """A second run after a failure finds the failed machine without an old service: it is proved
    before another machine is touched."""
    rollout = three(c=START)
    assert may(rollout, "c") == [GO]
    rollout.decide("a", SWAP)
    rollout.decide("b", START)
    assert may(rollout, "ab") == [WAIT, GO]
    rollout.finish("b", good=True)
    assert may(rollout, "a") == [WAIT]
    rollout.finish("c", good=False)
    assert may(rollout, "a") == ["rollout"]


def test_a_refused_machine_stops_the_rollout_too() -> None:
    rollout = three(b=SWAP, c=SWAP)
    rollout.refuse("a")
    assert may(rollout, "bc") == ["rollout", "rollout"]
    assert rollout.summary() == {"a": "failed", "b": "untouched", "c": "untouched"}


def test_a_batch_of_two() -> None:
    rollout = three(2, a=SWAP, b=SWAP, c=SWAP)
    assert may(rollout) == [GO, GO, WAIT]
    rollout.finish("b", good=True)
    assert may(rollout, "c") == [WAIT]
    rollout.finish("a", good=True)
    assert may(rollout, "c") == [GO]


def test_a_batch_begins_as_one_and_a_failure_in_it_stops_the_next() -> None:
    rollout = three(2, a=SWAP, b=SWAP, c=SWAP)
    assert may(rollout, "a") == [GO]
    rollout.finish("a", good=False)
    assert may(rollout, "bc") == [GO, "rollout"]


def test_machines_that_need_nothing_never_wait() -> None:
    rollout = three(a=NOTHING)
    assert may(rollout, "a") == [GO]
    rollout.finish("a", good=True)
    assert rollout.summary() == {}


def test_a_retry_of_pyinfra_keeps_the_turn() -> None:
    rollout = three(a=SWAP, b=SWAP, c=SWAP)
    assert may(rollout, "a") == [GO]
    rollout.decide("a", START)  # its operation runs anew, with fresh facts
    assert may(rollout, "ab") == [GO, WAIT]


def test_later_machines_come_later_and_find_what_happened() -> None:
    """pyinfra's --parallel and --serial: the others are not here yet."""
    rollout = Rollout()
    rollout.expect([Member("a", "a")])
    rollout.decide("a", SWAP)
    assert may(rollout, "a") == [GO]
    rollout.finish("a", good=False)
    rollout.expect([Member("b", "b"), Member("c", "c")])
    rollout.decide("b", SWAP)
    rollout.decide("c", START)
    assert may(rollout, "bc") == ["rollout", GO]


PAIR = ("a", "b")


def pair(*names: str) -> Rollout:
    """A cluster of a and b beside c; only these machines are in the run."""
    rollout = Rollout()
    rollout.expect([Member(n, "cluster x", PAIR) if n in PAIR else Member(n, n) for n in names])
    return rollout


def test_a_cluster_has_one_turn() -> None:
    rollout = pair("a", "b", "c")
    for name in "abc":
        rollout.decide(name, SWAP, whole=name != "c")
    assert may(rollout) == [GO, GO, WAIT]
    rollout.finish("a", good=True)
    assert may(rollout, "c") == [WAIT]
    rollout.finish("b", good=True)
    assert may(rollout, "c") == [GO]


def test_a_member_with_a_first_start_waits_for_its_clusters_turn() -> None:
    rollout = pair("c", "a", "b")
    rollout.decide("a", START, whole=True)
    rollout.decide("c", SWAP)
    assert may(rollout, "a") == [WAIT]
    rollout.decide("b", SWAP, whole=True)
    assert may(rollout, "abc") == [WAIT, WAIT, GO]
    rollout.finish("c", good=True)
    assert may(rollout, "ab") == [GO, GO]


def test_a_missing_member_blocks_its_cluster_and_not_its_neighbours() -> None:
    for lost_in_the_run in (False, True):
        rollout = pair("a", "b", "c") if lost_in_the_run else pair("a", "c")
        rollout.decide("a", SWAP, whole=True)
        rollout.decide("c", SWAP)
        if lost_in_the_run:
            assert may(rollout, "a") == [WAIT]
            rollout.finish("b", good=False)
        assert rollout.may("a").startswith("cluster x: b takes no part in this run")
        rollout.finish("a", good=False)
        assert may(rollout, "c") == [GO]
        rollout.finish("c", good=True)
        assert {**rollout.summary(), "b": "lost"} == {"a": "untouched", "b": "lost", "c": "done"}


def test_members_that_are_never_at_work_together_are_told_so() -> None:
    """pyinfra's --serial, and a --parallel smaller than the cluster."""
    rollout = Rollout()
    rollout.expect([Member("a", "cluster x", PAIR, apart=("b",))])
    rollout.decide("a", START, whole=True)
    assert rollout.may("a").startswith("cluster x: b has another turn than this machine")
    assert "run without --serial" in rollout.may("a")
    rollout.finish("a", good=False)
    rollout.expect([Member("b", "cluster x", PAIR, apart=("a",))])
    rollout.decide("b", START, whole=False)  # units of its own need no partner
    assert may(rollout, "b") == [GO]


def test_a_members_own_units_do_not_need_the_other() -> None:
    rollout = pair("a", "c")
    rollout.decide("a", SWAP, whole=False)
    rollout.decide("c", NOTHING)
    assert may(rollout, "a") == [GO]
