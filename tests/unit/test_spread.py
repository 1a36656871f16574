"""Who brings what, and who asks whom: the planner alone."""

from __future__ import annotations

import math

from sparkwright import spread, spread_wire
from sparkwright.jobs import Job, start_commands
from sparkwright.spread import Item, Share

ITEM = Item("weights-0123456789ab", "openai/x", "/srv/w/x", (("a", 1), ("b", 2)))


def share(wanting: int, holding: int = 0) -> Share:
    found = Share(ITEM)
    for number in range(wanting + holding):
        found.sees(f"spark-{number:02}", number >= wanting)
    return found


def test_one_machine_alone_shares_with_nobody() -> None:
    assert not share(1).common
    assert share(2).common
    assert share(1, 1).common


def test_the_first_that_asks_is_chosen_and_no_other() -> None:
    found = share(3)
    assert found.chooses("spark-01")
    assert not found.chooses("spark-00")
    assert found.chooses("spark-01")
    found.ends("spark-01", True)
    assert not found.chooses("spark-00")
    assert found.sources("spark-00") == ["spark-01"]


def test_nobody_is_chosen_while_somebody_holds_it() -> None:
    found = share(2, 1)
    assert not found.chooses("spark-00")
    assert found.sources("spark-00") == ["spark-02"]
    found.gone.add("spark-02")
    assert found.chooses("spark-00")


def test_after_a_failure_another_is_chosen() -> None:
    found = share(3)
    assert found.chooses("spark-00")
    found.ends("spark-00", False)
    assert found.chooses("spark-02")
    found.ends("spark-02", True)
    found.ends("spark-01", True)
    assert found.over


def test_a_run_in_series_copies_from_the_one_before() -> None:
    found = share(3)
    for number in range(3):
        name = f"spark-{number:02}"
        assert found.chooses(name) == (number == 0)
        assert (number == 0) == (not found.sources(name))
        found.ends(name, True)


def test_everybody_is_reached_in_few_steps() -> None:
    for size in (2, 3, 8, 32, 33):
        found = share(size)
        names = sorted(found.wanting)
        assert all(len(found.peers(name)) <= 2 * math.ceil(math.log2(size)) for name in names)
        reached, steps = {names[0]}, 0
        while len(reached) < size:
            reached |= {n for n in names if reached & set(found.peers(n))}
            steps += 1
        assert steps <= math.ceil(math.log2(size)), size


def test_the_loss_of_any_machine_cuts_nobody_off() -> None:
    found = share(8)
    for lost in found.wanting:
        left = found.wanting - {lost}
        reached = {min(left)}
        for _ in left:
            reached |= {n for n in left if reached & set(found.peers(n))}
        assert reached == left


def test_few_holders_are_asked() -> None:
    found = share(1, 9)
    assert found.peers("spark-00") == [f"spark-{n:02}" for n in range(1, 1 + spread.HOLDERS)]


def machine(number: int, cluster: object = None) -> dict[str, object]:
    return {
        "ssh_hostname": f"10.0.0.{number}",
        "lan": f"10.0.0.{number}",
        "cluster": cluster or {},
    }


def test_the_fabric_comes_first_within_a_cluster() -> None:
    members = [
        {"address": f"10.0.0.{n}", "fabric": [f"192.168.100.{n}", f"192.168.101.{n}"]}
        for n in (1, 2)
    ]
    pair = {"members": members}
    own, other, third = machine(1, pair), machine(2, pair), machine(3)
    assert spread.addresses(own, other) == ["192.168.100.2", "192.168.101.2", "10.0.0.2"]
    assert spread.addresses(third, other) == ["10.0.0.2"]
    assert spread.addresses(own, third) == ["10.0.0.3"]
    assert spread.own_addresses(own) == ["192.168.100.1", "192.168.101.1", "10.0.0.1"]


def test_a_machine_does_not_take_itself_for_another() -> None:
    """Ports that the laptop forwards: both machines have its own address."""
    one, two = ({"ssh_hostname": "127.0.0.1", "lan": "127.0.0.1", "ssh_port": n} for n in (1, 2))
    assert spread.addresses(one, two) == []
    assert spread.own_addresses(one) == ["127.0.0.1"]


def test_the_token_travels_through_standard_input_alone() -> None:
    token = spread_wire.token(b"secret", ITEM)
    serve = spread_wire.serve("llm", 8473, ["10.0.0.1"], "/srv/copies")
    commands = [
        spread_wire.announce(ITEM, "llm", token),
        spread_wire.offer(ITEM, "llm", token, serve),
        serve,
    ]
    assert not any(token in command.shell for command in commands)
    assert spread_wire.offer(ITEM, "llm", token, serve).stdin == token
    assert token != spread_wire.token(b"secret", Item("other", "x", "/"))
    assert token != spread_wire.token(b"another", ITEM)


def test_a_job_is_told_whom_to_ask_and_the_word_of_an_old_run_is_removed() -> None:
    job = Job("weights-x", "0123456789ab", ("/p/weights.py",), {"dir": "/srv"})
    told = spread_wire.joined(job, ITEM, [("spark-2", ["10.0.0.2"])], 8473)
    assert told.spec["dir"] == "/srv"
    assert told.spec["spread"]["peers"] == [["spark-2", ["10.0.0.2"]]]
    assert told.digest == job.digest
    begin = start_commands(told)[-1].shell
    assert f"{job.directory}/go" in begin.split("rm -f ")[1].split(";")[0]
    assert spread_wire.go(job).shell.endswith(told.spec["spread"]["go"])
