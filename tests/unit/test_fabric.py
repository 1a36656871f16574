"""Choosing the halves of a cable: what is refused, what drifts, and each machine's variables."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from sparkwright import fabric
from sparkwright.errors import Problems, SparkwrightError
from sparkwright.fabric import Half
from sparkwright.fabric_env import fabric_env
from tests.unit.fabric_case import HALVES, cluster, interface, lab, spark, with_addresses

CAGE_0 = ("enp1s0f0np0", "enP2p1s0f0np0")
CAGE_1 = ("enp1s0f1np1", "enP2p1s0f1np1")
NAMED: dict[str, Any] = {"interfaces": ["fab0", "fab1"]}


def chosen(seen: dict[str, Any], rank: int = 0, **changes: Any) -> tuple[Half, ...]:
    problems = Problems()
    found = fabric.halves(cluster(**changes), rank, seen, problems)
    problems.raise_if_any()
    return found


def wrong(seen: dict[str, Any], speed: int = 200000, **changes: Any) -> list[str]:
    problems = Problems()
    found = fabric.halves(cluster(**changes), 0, seen, problems)
    fabric.refused(found, seen, speed, problems)
    return [str(problem) for problem in problems]


@pytest.mark.parametrize(("cage", "names"), [(0, CAGE_0), (1, CAGE_1)])
def test_the_halves_of_the_cage_with_the_cable_are_taken(cage: int, names: tuple[str, ...]) -> None:
    found = chosen(spark((cage,)), rank=1)
    assert found == (
        Half(names[0], "192.168.100.11/24", HALVES[names[0]][0]),
        Half(names[1], "192.168.101.11/24", HALVES[names[1]][0]),
    )
    assert wrong(spark((cage,))) == []


def test_port_1_on_one_box_and_port_2_on_the_other() -> None:
    """Case N01: each machine's variables name its own interfaces and devices."""
    a = fabric_env(cluster(), 0, with_addresses(spark((0,)), 0, *CAGE_0))
    b = fabric_env(cluster(), 1, with_addresses(spark((1,)), 1, *CAGE_1))
    assert (a["NCCL_SOCKET_IFNAME"], b["NCCL_SOCKET_IFNAME"]) == ("enp1s0f0np0", "enp1s0f1np1")
    assert a["NCCL_IB_HCA"] == "rocep1s0f0,roceP2p1s0f0"
    assert b["NCCL_IB_HCA"] == "rocep1s0f1,roceP2p1s0f1"


def test_two_interfaces_on_one_subnet_are_the_halves_of_one_cable() -> None:
    """Case N02: addresses that somebody gave both halves by hand are no error; they are drift."""
    seen = spark((0,), enp1s0f0np0={"addresses": ["10.9.0.1/24"]},
                 enP2p1s0f0np0={"addresses": ["10.9.0.2/24"]})  # fmt: skip
    assert wrong(seen) == []
    assert "enP2p1s0f0np0: has 10.9.0.2/24, which does not belong there" in fabric.drift(
        cluster(), chosen(seen), seen
    )


def test_two_different_ports_are_not_one_cable() -> None:
    """Case N02, the other half: with both cables in, two networks do not say which is meant."""
    assert wrong(spark((0, 1))) == [
        "fabric: 4 halves are up (enp1s0f0np0+enP2p1s0f0np0 and enp1s0f1np1+enP2p1s0f1np1) for 2 "
        "networks; write 4 networks under clusters/p/fabric, or name the interfaces"
    ]


def test_two_cables_take_four_networks() -> None:
    networks = [f"192.168.10{n}.0/24" for n in range(4)]
    members = [{"name": "a", "address": "x", "fabric": [f"192.168.10{n}.10" for n in range(4)]}]
    found = chosen(spark((0, 1)), networks=networks, members=members)
    assert [half.interface for half in found] == [*CAGE_0, *CAGE_1]


def test_names_are_taken_as_they_are_given() -> None:
    assert chosen(lab(), **NAMED) == (
        Half("fab0", "192.168.100.10/24", ""),
        Half("fab1", "192.168.101.10/24", ""),
    )


REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], list[str]]] = {
    "no cable": (
        spark(()), {},
        ["fabric: no cable is up at enp1s0f0np0, enP2p1s0f0np0, enp1s0f1np1, enP2p1s0f1np1; "
         "plug it in, or wake a port: sudo ip link set NAME up"],
    ),
    "one half": (
        spark((1,), enP2p1s0f1np1={"up": False}), {},
        ["fabric: enp1s0f1np1 is up, and the other half of its cable, enP2p1s0f1np1, is not; "
         "sudo ip link set enP2p1s0f1np1 up; else plug the cable in again"],
    ),
    "no RDMA": (
        lab(), {},
        ["fabric: no ConnectX-7 port is here: no RDMA device with an interface; load its driver, "
         "or name the interfaces: clusters/p/fabric/interfaces"],
    ),
    "a name that is not there": (
        lab(), {"interfaces": ["fab0", "fab9"]},
        ["fabric: no interface fab9; it has enP7s7, fab0, fab1; correct "
         "clusters/p/fabric/interfaces"],
    ),
    "no carrier": (
        lab(fab1={"up": False}), NAMED,
        ["fabric: fab1 has no carrier; plug its cable in, at both ends"],
    ),
    "the interface of SSH": (
        lab(), {"interfaces": ["fab0", "enP7s7"]},
        ["fabric: enP7s7 carries this SSH connection, which is never touched; the fabric needs an "
         "interface of its own"],
    ),
    "an address of the fabric on the interface of SSH": (
        lab(enP7s7={"addresses": ["192.168.100.10/24"]}), NAMED,
        ["fabric: enP7s7 carries this SSH connection and has the fabric's 192.168.100.10/24; give "
         "the fabric other networks in sparks.yaml"],
    ),
    "another netplan file": (
        lab(fab1={"claimed": ["/etc/netplan/40-cx7.yaml"]}), NAMED,
        ["fabric: fab1 is configured by /etc/netplan/40-cx7.yaml already; take it out there: "
         "sparkwright writes a file of its own"],
    ),
    "no netplan": (
        {**lab(), "tools": {"netplan": "", "ping": "", "ib_write_bw": ""}}, NAMED,
        ["fabric: netplan is not installed; sudo apt-get install netplan.io",
         "fabric: ping is not installed; sudo apt-get install iputils-ping"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_configured_is_refused(case: str) -> None:
    seen, changes, lines = REFUSED[case]
    assert wrong(seen, 0, **changes) == lines


def test_a_link_that_came_up_slower_is_refused() -> None:
    seen = spark((1,), enp1s0f1np1={"speed": 100000})
    assert wrong(seen) == [
        "fabric: enp1s0f1np1 runs at 100000 Mb/s, not 200000; set the switch's port, or its cable; "
        "fabric_speed_mbps if this is meant"
    ]
    assert wrong(seen, speed=0) == []


def test_a_named_interface_that_is_off_says_nothing_of_its_cable() -> None:
    seen = lab(fab1={"on": False, "up": False, "speed": 0})
    assert wrong(seen, **NAMED) == [
        "fabric: fab0 runs at 10000 Mb/s, not 200000; set the switch's port, or its cable; "
        "fabric_speed_mbps if this is meant"
    ]
    assert "fab1: is switched off" in fabric.drift(cluster(**NAMED), chosen(seen, **NAMED), seen)


def test_the_netplan_file_is_what_netplan_reads() -> None:
    found = chosen(spark((1,)))
    text = fabric.netplan_text(cluster(), found)
    assert yaml.safe_load(text) == {
        "network": {
            "version": 2,
            "ethernets": {
                name: {
                    "addresses": [address],
                    "dhcp4": False,
                    "dhcp6": False,
                    "link-local": [],
                    "mtu": 9000,
                    "optional": True,
                }
                for name, address in zip(
                    CAGE_1, ["192.168.100.10/24", "192.168.101.10/24"], strict=True
                )
            },
        }
    }


def test_a_converged_machine_does_not_drift() -> None:
    seen = with_addresses(spark((1,)), 0, *CAGE_1)
    seen["interfaces"]["enp1s0f1np1"]["addresses"].append("fe80::1/64")
    assert fabric.drift(cluster(), chosen(seen), seen) == []


@pytest.mark.parametrize(
    ("name", "change", "phrase"),
    [
        ("enp1s0f1np1", {"mtu": 1500}, "enp1s0f1np1: mtu is 1500, not 9000"),
        ("enp1s0f1np1", {"addresses": []}, "enp1s0f1np1: lacks 192.168.100.10/24"),
        ("enP2p1s0f1np1", {"on": False}, "enP2p1s0f1np1: is switched off"),
        (
            "enp1s0f0np0",
            {"addresses": ["192.168.100.10/24"]},
            "enp1s0f0np0: has 192.168.100.10/24, which does not belong there",
        ),
    ],
)
def test_every_difference_is_named(name: str, change: dict[str, Any], phrase: str) -> None:
    seen = with_addresses(spark((1,)), 0, *CAGE_1)
    seen["interfaces"][name] |= change
    assert fabric.drift(cluster(), chosen(seen), seen) == [phrase]


def test_a_change_that_was_never_confirmed_is_drift() -> None:
    seen = {**with_addresses(spark((1,)), 0, *CAGE_1), "trial": ["/run/netplan/40-x.yaml"]}
    assert fabric.drift(cluster(), chosen(seen), seen) == [
        "/run/netplan/40-x.yaml: a change that was never confirmed"
    ]


def test_variables_agree_and_name_both_halves() -> None:
    """Case N03: all interfaces are one, and it exists with the member's address."""
    found = fabric_env(cluster(), 1, with_addresses(spark((1,)), 1, *CAGE_1))
    assert found == {
        "NCCL_SOCKET_IFNAME": "enp1s0f1np1",
        "GLOO_SOCKET_IFNAME": "enp1s0f1np1",
        "TP_SOCKET_IFNAME": "enp1s0f1np1",
        "UCX_NET_DEVICES": "enp1s0f1np1",
        "OMPI_MCA_btl_tcp_if_include": "enp1s0f1np1",
        "NCCL_IB_HCA": "rocep1s0f1,roceP2p1s0f1",
        "NCCL_IB_SUBNET_AWARE_ROUTING": "1",
        "NCCL_NET_GDR_LEVEL": "0",
        "VLLM_HOST_IP": "192.168.100.11",
    }


def test_what_a_machine_has_not_is_left_out() -> None:
    found = fabric_env(cluster(**NAMED), 0, with_addresses(lab(), 0, "fab0", "fab1"))
    assert not [name for name in found if name.startswith(("NCCL_IB", "NCCL_NET"))]
    assert "" not in found.values()
    assert found["VLLM_HOST_IP"] == "192.168.100.10"


@pytest.mark.parametrize("interfaces", ["auto", ["fab0", "fab1"]])
def test_variables_never_name_an_interface_without_the_address(interfaces: object) -> None:
    """Case N03: the interface is there and has the address, or nothing is rendered."""
    seen = spark((1,), fab0=interface(), fab1=interface())
    with pytest.raises(SparkwrightError) as error:
        fabric_env(cluster(interfaces=interfaces), 0, seen)
    first = "fab0" if interfaces != "auto" else "enp1s0f1np1"
    assert str(error.value).splitlines()[0] == (
        f"fabric: {first} lacks 192.168.100.10/24; converge the cluster's fabric first"
    )


def test_a_machine_that_says_nothing_is_an_error() -> None:
    with pytest.raises(SparkwrightError) as error:
        fabric.read({"rc": 1, "out": "", "err": "Traceback\nNameError: x"})
    assert str(error.value) == "fabric: cannot be looked at: NameError: x"
