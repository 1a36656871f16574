"""The clusters section of sparks.yaml: sparks joined by their ConnectX-7 cables. Pure.

The address of a spark (SSH, the network of the house) and its fabric addresses are separate things.
docs/multi-spark.md explains the section.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sparkwright.errors import nearest
from sparkwright.fleet_fabric import Fabric, addresses, check_networks, read_fabric
from sparkwright.fleet_ports import check_member_ports
from sparkwright.fleet_serve import Served, check_served, read_serve
from sparkwright.fleet_ssh import is_loopback, normal_address
from sparkwright.members import Member as Part
from sparkwright.recipes import Recipe
from sparkwright.yaml_reader import Reader, type_problem


@dataclass(frozen=True)
class Member:
    """A spark of a cluster.

    + address: as in sparks.yaml, for SSH; fabric: its IPv4 address in each network of the fabric
    """

    name: str
    address: str
    fabric: tuple[str, ...]


@dataclass(frozen=True)
class Cluster:
    """Sparks that serve together; members are in order of rank, the first is the head."""

    name: str
    members: tuple[Member, ...]
    fabric: Fabric
    serve: tuple[Served, ...]


class Spark(Protocol):
    """What of fleet.Spark is used here; that module reads this one."""

    @property
    def name(self) -> str: ...
    @property
    def address(self) -> str: ...
    @property
    def settings(self) -> Mapping[str, object]: ...
    @property
    def serve(self) -> tuple[Served, ...]: ...


def read_clusters(
    part: Reader,
    sparks: Sequence[Spark],
    settings: Mapping[str, object],
    recipes: Mapping[str, Recipe | None],
) -> tuple[Cluster, ...]:
    """
    The section; every problem is recorded.

    + part: reader of the map under `clusters`
    + settings: defaults; those of the head decide what a served recipe may do
    """
    known = {spark.name: spark for spark in sparks}
    clusters: list[Cluster] = []
    for name, values in part.items():
        _check_name(part, name, known)
        reader = part.at(name, values)
        names = reader.take("sparks", list)
        fabric = read_fabric(reader.section("fabric"), len(names))
        serve = read_serve(reader)
        reader.finish(dict.fromkeys(("networks", "mtu", "interfaces"), "write it under fabric"))
        members = _members(reader, names, fabric, known)
        check_networks(reader, fabric, {c.name: c.fabric for c in clusters}, sparks)
        head = known[members[0].name].settings if members else {}
        part_of = member_part(name, members) if members else None
        check_served(reader, serve, {**settings, **head}, recipes, part_of)
        own = [(member.name, known[member.name].serve) for member in members]
        check_member_ports(reader, serve, own, recipes)
        clusters.append(Cluster(name, members, fabric, serve))
    _check_members(part, clusters)
    return tuple(clusters)


def member_part(name: str, members: Sequence[Member]) -> Part:
    """The head's part of a cluster."""
    names = tuple(member.name for member in members)
    return Part(name, 0, names, tuple(member.fabric[0] for member in members))


def cluster_data(clusters: Sequence[Cluster], name: str) -> dict[str, Any]:
    """What a spark's data says of its cluster; empty when it is in none."""
    for cluster in clusters:
        names = [member.name for member in cluster.members]
        if name in names:
            interfaces = cluster.fabric.interfaces
            return {
                "name": cluster.name,
                "rank": names.index(name),
                "mtu": cluster.fabric.mtu,
                "networks": list(cluster.fabric.networks),
                "interfaces": interfaces if isinstance(interfaces, str) else list(interfaces),
                "members": [
                    {"name": m.name, "address": m.address, "fabric": list(m.fabric)}
                    for m in cluster.members
                ],
                "serve": [dataclasses.asdict(served) for served in cluster.serve],
            }
    return {}


def _check_name(part: Reader, name: str, sparks: Mapping[str, Spark]) -> None:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", name):
        what = f'"{name}" cannot name a cluster'
        part.fail("", what, "use letters, digits, dot, dash and _, at most 63 characters")
    elif name in sparks:
        part.fail(name, "has the name of a spark", "call one of them differently")


def _members(
    part: Reader, names: Sequence[object], fabric: Fabric, sparks: Mapping[str, Spark]
) -> tuple[Member, ...]:
    """The sparks that are there, in order of rank; an address for each in every network."""
    members = []
    for rank, name in enumerate(names):
        place = f"sparks/{rank}"
        wrong = type_problem(name, str)
        if wrong:
            part.fail(place, *wrong)
        elif name not in sparks:
            part.fail(place, f"no spark named {name}", nearest(str(name), sparks))
        elif name in names[:rank]:
            part.fail(place, f"{name} is listed twice", "keep one; the order is the rank")
        else:
            found = sparks[str(name)]
            members.append(Member(found.name, found.address, addresses(fabric, rank)))
    if part.has("sparks") and len(names) < 2:
        what = f"names {len(names)} spark{'' if len(names) == 1 else 's'}, a cluster has 2 or more"
        part.fail("sparks", what, "add one, or remove the cluster")
    return tuple(members)


def _check_members(part: Reader, clusters: Sequence[Cluster]) -> None:
    first: dict[str, str] = {}
    for cluster in clusters:
        for member in cluster.members:
            place = f"{cluster.name}/sparks"
            other = first.setdefault(member.name, cluster.name)
            if other != cluster.name:
                what = f"{member.name} is in {other} too"
                part.fail(place, what, "a spark is in one cluster at most")
            if member.address and is_loopback(normal_address(member.address)):
                what = f"{member.name} has the address {member.address}, which every machine has"
                part.fail(place, what, "give it the address by which the others reach it")
