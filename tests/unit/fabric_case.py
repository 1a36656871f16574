"""A pair and what its machines say, for tests of the fabric: names and numbers of real Sparks."""

from __future__ import annotations

import copy
from typing import Any

CLUSTER: dict[str, Any] = {
    "name": "p",
    "rank": 0,
    "mtu": 9000,
    "networks": ["192.168.100.0/24", "192.168.101.0/24"],
    "interfaces": "auto",
    "members": [
        {"name": "a", "address": "10.0.0.1", "fabric": ["192.168.100.10", "192.168.101.10"]},
        {"name": "b", "address": "10.0.0.2", "fabric": ["192.168.100.11", "192.168.101.11"]},
    ],
    "serve": [],
}
# Interface, RDMA device and PCI address of each half, as DGX OS names them (NVIDIA's DGX Spark
# documentation): two cages, each with a half in PCI domain 0 and one in domain 2.
HALVES = {
    "enp1s0f0np0": ("rocep1s0f0", "0000:01:00.0"),
    "enp1s0f1np1": ("rocep1s0f1", "0000:01:00.1"),
    "enP2p1s0f0np0": ("roceP2p1s0f0", "0002:01:00.0"),
    "enP2p1s0f1np1": ("roceP2p1s0f1", "0002:01:00.1"),
}


def interface(**values: Any) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "mtu": 1500, "on": True, "up": True, "speed": 10000, "pci": "", "addresses": [],
        "rdma": None, "claimed": [],
    }  # fmt: skip
    return {**plain, **values}


def spark(up: tuple[int, ...] = (1,), **changes: Any) -> dict[str, Any]:
    """What a Spark says whose cable is in these cages, SSH coming in over enP7s7.

    + changes: interface -> what differs, or None to take it away
    """
    found = {"enP7s7": interface(pci="0007:01:00.0", addresses=["10.0.0.1/24"])}
    for name, (device, pci) in HALVES.items():
        cable = int(pci[-1]) in up
        rdma = {
            "device": device,
            "state": "ACTIVE" if cable else "DOWN",
            "phys": "LinkUp" if cable else "Disabled",
        }
        speed = 200000 if cable else 0
        found[name] = interface(up=cable, speed=speed, pci=pci, rdma=rdma)
    for name, change in changes.items():
        if change is None:
            del found[name]
        else:
            found[name] = {**found.get(name, interface()), **change}
    return {
        "interfaces": found,
        "ssh": ["enP7s7"],
        "tools": {"netplan": "/usr/sbin/netplan", "ping": "/usr/bin/ping", "ib_write_bw": ""},
        "trial": [],
        "versions": {"kernel": "6.14.0-1013-nvidia", "driver": "580.95.05"},
        "pings": [],
    }


def lab(**changes: Any) -> dict[str, Any]:
    """What a machine says that has plain interfaces fab0 and fab1."""
    return spark((), **{**dict.fromkeys(HALVES), "fab0": {}, "fab1": {}, **changes})


def cluster(**changes: Any) -> dict[str, Any]:
    return {**copy.deepcopy(CLUSTER), **changes}


def with_addresses(seen: dict[str, Any], rank: int, *names: str) -> dict[str, Any]:
    """The same machine after a converge: these interfaces have the member's addresses."""
    seen = copy.deepcopy(seen)
    for name, address in zip(names, CLUSTER["members"][rank]["fabric"], strict=True):
        seen["interfaces"][name] |= {"addresses": [f"{address}/24"], "mtu": 9000}
    return seen
