"""The fabric of a cluster: networks, MTU and interfaces, as sparks.yaml says them. Pure."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from sparkwright.yaml_reader import Check, Reader, Verdict, between

# Two halves of one cable need two networks, and .10 and .11 are their hosts: NVIDIA's playbook
# "connect two Sparks" (dgx-spark-playbooks, 2026-07-21).
NETWORKS: Final = ("192.168.100.0/24", "192.168.101.0/24")
FIRST_HOST: Final = 10
# The playbook leaves 1500; sparkrun and the fleets in dgx-spark-playbooks#103 set 9000.
MTU: Final = 9000
# Ethernet's payload (IEEE 802.3) and the longest IPv4 packet (RFC 791).
_MTUS: Final = (1500, 65535)
# A cable has two halves, and a machine two cages (NVIDIA's DGX Spark documentation).
_HALVES: Final = (2, 4)
_EXAMPLE: Final = f"write networks: [{', '.join(NETWORKS)}]"


@dataclass(frozen=True)
class Fabric:
    """What the cables carry.

    + networks: IPv4 networks with prefix, one a half
    + mtu: bytes
    + interfaces: "auto" (the halves whose cable is up) or names, one a network
    """

    networks: tuple[str, ...] = NETWORKS
    mtu: int = MTU
    interfaces: str | tuple[str, ...] = "auto"


class Addressed(Protocol):
    """A spark, as far as networks are concerned."""

    @property
    def name(self) -> str:
        """Its name in sparks.yaml."""
        ...

    @property
    def address(self) -> str:
        """Its address for SSH."""
        ...


def addresses(fabric: Fabric, rank: int) -> tuple[str, ...]:
    """The address of a rank in each network that has one for it."""
    networks = [ipaddress.IPv4Network(text) for text in fabric.networks]
    number = FIRST_HOST + rank
    return tuple(str(n[number]) for n in networks if number < n.num_addresses - 1)


def read_fabric(part: Reader, count: int) -> Fabric:
    """
    The fabric section of a cluster; every problem is recorded.

    + count: of the cluster's sparks
    """
    said, before = dict(part.items()), len(part.problems)
    part = part.at("", said)
    networks = part.texts("networks", check=_network_check(count)) or NETWORKS
    mtu = part.take("mtu", int, MTU, check=between(*_MTUS))
    interfaces: str | tuple[str, ...] = "auto"
    if said.get("interfaces", "auto") != "auto":
        interfaces = part.texts("interfaces", check=_interface_problem) or "auto"
    else:
        part.take("interfaces", str, "auto")
    part.finish({"addresses": "they follow from networks and the order of sparks"})
    if len(part.problems) == before:
        _check_count(part, networks, interfaces)
    return Fabric(networks, mtu, interfaces)


def _check_count(part: Reader, networks: Sequence[str], interfaces: str | tuple[str, ...]) -> None:
    have = len(networks)
    if isinstance(interfaces, tuple):
        doubled = [name for at, name in enumerate(interfaces) if name in interfaces[:at]]
        for name in doubled:
            part.fail("interfaces", f"{name} is listed twice", "keep one")
        if not doubled and len(interfaces) != have:
            what = f"{_many(len(interfaces), 'name')} for {_many(have, 'network')}"
            part.fail("interfaces", what, "name one interface a network, in the same order")
    elif have not in _HALVES:
        what = f"{_many(have, 'network')}, and each cable has two halves"
        part.fail("networks", what, "write two, or four for two cables, or name the interfaces")
    for at, text in enumerate(networks):
        for other in networks[:at]:
            if _net(text).overlaps(_net(other)):
                what = f"{text} overlaps {other}"
                part.fail(f"networks/{at}", what, "each half needs a network of its own")


def check_networks(
    part: Reader, fabric: Fabric, others: Mapping[str, Fabric], sparks: Sequence[Addressed]
) -> None:
    """
    A fabric's networks hold no SSH address and overlap with no other cluster's.

    + others: by the names of the clusters read before
    """
    for at, text in enumerate(fabric.networks):
        place = f"fabric/networks/{at}"
        for name, other in others.items():
            for theirs in other.networks:
                if _net(text).overlaps(_net(theirs)):
                    what = f"{text} overlaps {theirs} of {name}"
                    part.fail(place, what, "one switch would mix them; give each its own")
        for spark in sparks:
            if _holds(text, spark.address):
                what = f"{text} holds the address of {spark.name}, {spark.address}"
                part.fail(place, what, "the fabric needs networks apart from the one for SSH")


def _network_check(count: int) -> Check:
    """A check for IPv4 networks with room for so many sparks."""

    def check(text: str) -> Verdict:
        try:
            network = ipaddress.IPv4Network(text)
        except ValueError:
            return f'must be an IPv4 network with its prefix, not "{text}"', _EXAMPLE
        if network.is_loopback or network.is_multicast or network.is_unspecified:
            return f"{text} is no network for machines", _EXAMPLE
        last = FIRST_HOST + max(count, 2) - 1
        if last >= network.num_addresses - 1:
            what = f"{text} is too small: {max(count, 2)} sparks take .{FIRST_HOST} to .{last}"
            return what, "use a /24"
        return None

    return check


def _interface_problem(name: str) -> Verdict:
    # 15 characters: IFNAMSIZ of the kernel, less the closing zero.
    if name == "lo" or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,14}", name):
        return f'"{name}" is not an interface of a cable', "see: ip -brief link"
    return None


def _many(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"


def _net(text: str) -> ipaddress.IPv4Network:
    return ipaddress.IPv4Network(text)


def _holds(network: str, address: str) -> bool:
    try:
        return ipaddress.ip_address(address) in _net(network)
    except ValueError:  # a name: where it leads is known when the machine answers
        return False
