"""What members of a cluster are told about each other: packets, versions, machine ids."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from sparkwright import fabric_judge, fabric_verify, preflight_fabric
from sparkwright.errors import Problems
from sparkwright.status_ask import Answer
from tests.unit.fabric_case import cluster, lab, spark, with_addresses

CAGE = ("enp1s0f1np1", "enP2p1s0f1np1")
DATA: dict[str, Any] = {
    "cluster": cluster(),
    "cluster_may_differ": [],
    "fabric_speed_mbps": 200000,
    "prefix": "/opt/sparkwright",
}


def answered(*words: str, rank: int = 0) -> dict[str, Any]:
    """A converged member whose pings to the other's halves went so."""
    seen = with_addresses(spark(), rank, *CAGE)
    asked = fabric_judge.pings(cluster(rank=rank))
    seen["pings"] = [[*ping, word] for ping, word in zip(asked, words, strict=True)]
    return seen


def test_whole_packets_go_to_every_other_member_on_every_half() -> None:
    assert fabric_judge.pings(cluster(rank=1)) == [
        ("192.168.100.11", "192.168.100.10", 8972),
        ("192.168.101.11", "192.168.101.10", 8972),
    ]
    assert fabric_judge.unreached(cluster(), answered("ok", "ok")) == []


def test_a_half_that_carries_small_packets_alone_is_told_from_a_dead_one() -> None:
    """Case N04."""
    assert fabric_judge.unreached(cluster(), answered("none", "small")) == [
        "b at 192.168.100.11 does not answer 192.168.100.10; is it converged, and its cable in?",
        "b at 192.168.101.11 answers 192.168.101.10 only in small packets, not in 9000 bytes; its "
        "MTU or the switch's is smaller: sparkwright verify names the side",
    ]


def test_versions_that_differ_are_named_with_their_machines() -> None:
    """Cases N05 and N08; N06: nothing but versions is compared, no path, id or time."""
    members = {
        "a": {"driver": "580.126", "eugr ray": "2.44.1", "eugr python": "3.12.3", "kernel": "6"},
        "b": {"driver": "580.95", "eugr ray": "2.43.0", "eugr python": "3.12.3", "kernel": "6"},
        "c": {"driver": "580.126", "eugr python": "3.12.3", "kernel": "6"},
    }
    assert fabric_judge.differences(members) == [
        "driver is 580.126 on a and c, 580.95 on b",
        "eugr ray is 2.44.1 on a, 2.43.0 on b, not there on c",
    ]
    assert fabric_judge.differences(members, ["driver", "ray"]) == []


IDS = ("1" * 32, "boot-1")
DOUBLES: dict[str, tuple[tuple[str, str], list[str]]] = {
    "another machine": (("2" * 32, "boot-2"), []),
    "one machine under two names": (
        IDS, [f"b: is the same machine as a (machine-id {IDS[0]}); keep one of the two in "
              "sparks.yaml"],
    ),
    "a copied disk": (
        (IDS[0], "boot-2"),
        [f"b: has the machine-id of a, {IDS[0]}: its disk was copied; on one of them: sudo rm "
         "/etc/machine-id; sudo systemd-machine-id-setup; reboot"],
    ),
    "no id at all": (("", "boot-1"), []),
}  # fmt: skip


@pytest.mark.parametrize("case", DOUBLES)
def test_machines_with_one_machine_id_are_refused(case: str) -> None:
    """Case N09; also those of no cluster."""
    ids, lines = DOUBLES[case]
    together = preflight_fabric.Together()
    for name, (machine, boot) in {"b": ids, "a": IDS}.items():
        together.add(name, {"cluster": {}}, [{"text": machine + "\n"}, {"text": boot + "\n"}])
    assert together.problems() == lines


def told(seen: Any) -> list[dict[str, Any]]:
    import json

    return [{"text": "1"}, {"text": "1"}, {"rc": 0, "out": json.dumps(seen), "err": ""}]


def group(serve: list[object], may_differ: list[str]) -> preflight_fabric.Together:
    """a and b, whose drivers differ."""
    together = preflight_fabric.Together()
    for rank, name in enumerate("ab"):
        seen = spark()
        seen["versions"]["driver"] = f"580.{rank}"
        data = {
            **DATA,
            "cluster": cluster(rank=rank, serve=serve),
            "cluster_may_differ": may_differ,
        }
        together.add(name, data, told(seen))
    together.ids.clear()
    return together


def test_drivers_that_differ_forbid_to_serve_together() -> None:
    """Case N08: a note where nothing is served over the pair, else refused unless allowed."""
    line = "cluster p: driver is 580.0 on a, 580.1 on b"
    assert (group([], []).problems(), group([], []).notes()) == ([], [line])
    serving = group([{"recipe": "x"}], [])
    assert serving.problems() == [
        f"{line}; update the one that lags, or say so: cluster_may_differ"
    ]
    assert serving.notes() == []
    assert group([{"recipe": "x"}], ["driver"]).problems() == []


def test_preflight_looks_at_the_network_of_members_alone() -> None:
    assert len(preflight_fabric.probes({**DATA, "cluster": {}})) == 2
    assert len(preflight_fabric.probes(DATA)) == 3
    problems = Problems()
    preflight_fabric.check({**DATA, "cluster": {}}, told({})[:2], problems)
    preflight_fabric.check(DATA, told(spark((1,))), problems)
    assert list(problems) == []
    preflight_fabric.check(DATA, told(spark(())), problems)
    assert [problem.what for problem in problems] == [
        "no cable is up at enp1s0f0np0, enP2p1s0f0np0, enp1s0f1np1, enP2p1s0f1np1"
    ]


def test_a_machine_that_cannot_be_looked_at_is_a_problem_of_its_own() -> None:
    problems, together = Problems(), preflight_fabric.Together()
    states: list[dict[str, Any]] = [
        {"text": "1"},
        {"text": "1"},
        {"rc": 1, "out": "", "err": "no ip"},
    ]
    preflight_fabric.check(DATA, states, problems)
    together.add("a", DATA, states)
    assert list(map(str, problems)) == ["fabric: cannot be looked at: no ip"]


@pytest.mark.parametrize(("address", "noted"), [("a.local", True), ("A.LOCAL.", True),
                                                ("a.lan", False), ("10.0.0.1", False)])  # fmt: skip
def test_an_address_of_multicast_dns_is_noted(address: str, noted: bool) -> None:
    """Case N09."""
    assert bool(preflight_fabric.local_name({"ssh_hostname": address})) is noted


def answers(*seen: Any) -> list[Answer]:
    return [
        Answer(name, {**DATA, "cluster": cluster(rank=rank)}, said, "" if said else "timed out")
        for rank, (name, said) in enumerate(zip("ab", seen, strict=True))
    ]


def test_verify_says_that_a_pair_is_well() -> None:
    made = fabric_verify.checks(answers(answered("ok", "ok"), answered("ok", "ok", rank=1)))
    assert [(c.machine, c.name, c.ok) for c in made] == [
        ("a", "halves", True),
        ("b", "halves", True),
    ]
    assert made[0].seen == "enp1s0f1np1 192.168.100.10/24, enP2p1s0f1np1 192.168.101.10/24"


def test_verify_names_the_side_whose_mtu_is_small() -> None:
    """Case N04."""
    b = answered("ok", "small", rank=1)
    b["interfaces"][CAGE[1]]["mtu"] = 1500
    made = fabric_verify.checks(answers(answered("ok", "small"), b))
    assert [(c.machine, c.seen) for c in made if not c.ok] == [
        ("b", "enP2p1s0f1np1: mtu is 1500, not 9000")
    ]


def test_verify_compares_what_lies_in_the_environments() -> None:
    """Case N05; kernel and driver are compared elsewhere."""
    a, b = answered("ok", "ok"), answered("ok", "ok", rank=1)
    a["versions"] |= {"eugr torch": "2.9.0", "driver": "1"}
    b["versions"] |= {"eugr torch": "2.9.1", "driver": "2"}
    (found,) = [c for c in fabric_verify.checks(answers(a, b)) if c.name == "same libraries"]
    assert (found.ok, found.seen) == (False, "eugr torch is 2.9.0 on a, 2.9.1 on b")
    b["versions"]["eugr torch"] = "2.9.0"
    (found,) = [c for c in fabric_verify.checks(answers(a, b)) if c.name == "same libraries"]
    assert (found.ok, found.seen) == (True, "eugr torch 2.9.0")


def test_verify_does_not_call_a_member_well_that_did_not_answer() -> None:
    made = fabric_verify.checks(answers(answered("ok", "ok"), None))
    assert [(c.machine, c.ok) for c in made] == [("a", True), ("b", None)]


def test_a_lost_interface_is_wrong_and_not_an_error() -> None:
    seen = copy.deepcopy(lab())
    made = fabric_verify.checks(answers(seen, answered("ok", "ok", rank=1)))
    assert made[0].ok is False
    assert made[0].seen.startswith("no ConnectX-7 port is here")
