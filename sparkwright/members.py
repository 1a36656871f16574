"""A machine's part in a model that several sparks serve together: rank, addresses, ports. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from sparkwright.recipe_types import Recipe

# The members' ports are made from the recipe's, so that two models of one cluster never meet. They
# must stay below 32768, where the kernel takes ports of outgoing connections from (ip-sysctl,
# ip_local_port_range): that is the highest port that such a recipe may have.
LINK_OFFSET: Final = 20000
ENGINE_OFFSET: Final = 20500
PORT_MAX: Final = 32767 - ENGINE_OFFSET


@dataclass(frozen=True)
class Member:
    """One machine's part.

    + rank: 0 is the head, which answers
    + names, addresses: of all members by rank; addresses are those of the fabric's first network
    """

    cluster: str
    rank: int
    names: tuple[str, ...]
    addresses: tuple[str, ...]

    @property
    def is_head(self) -> bool:
        """Does this machine answer for all of them?"""
        return self.rank == 0

    @property
    def own(self) -> str:
        """This machine's address on the fabric."""
        return self.addresses[self.rank]

    @property
    def head(self) -> str:
        """The head's address on the fabric."""
        return self.addresses[0]

    @property
    def workers(self) -> tuple[str, ...]:
        """Addresses of all but the head, by rank."""
        return self.addresses[1:]


def link_port(port: int) -> int:
    """TCP port on which a worker's link listens, from the recipe's port."""
    return port + LINK_OFFSET


def engine_port(port: int) -> int:
    """TCP port of the engine's own meeting place: vLLM's master, Ray's head, llama.cpp's RPC."""
    return port + ENGINE_OFFSET


def member_of(cluster: Mapping[str, Any]) -> Member | None:
    """The part that a machine's `cluster` data gives it; None for a machine in no cluster."""
    if not cluster:
        return None
    members = cluster["members"]
    return Member(
        cluster=str(cluster["name"]),
        rank=int(cluster["rank"]),
        names=tuple(str(member["name"]) for member in members),
        addresses=tuple(str(member["fabric"][0]) for member in members),
    )


def entries(data: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any], Member | None]]:
    """(where it stands, entry, part) of the machine's own recipes and of its cluster's."""
    for place, item in enumerate(data["serve"]):
        yield f"serve/{place}", {"recipe": item} if isinstance(item, str) else item, None
    cluster = data.get("cluster") or {}
    member = member_of(cluster)
    for place, item in enumerate(cluster.get("serve", ())):
        entry = {"recipe": item} if isinstance(item, str) else item
        yield f"clusters/{cluster['name']}/serve/{place}", entry, member


def misplaced(recipe: Recipe, member: Member | None) -> tuple[str, str] | None:
    """Why a recipe cannot be served by this many machines (what is wrong, what to do), or None."""
    have, wanted = len(member.names) if member else 1, recipe.spread.sparks
    if have == wanted:
        return None
    if member is None:
        what = f"{recipe.name} wants {wanted} sparks together"
        return what, "list it under serve of a cluster (clusters in sparks.yaml)"
    what = f"{recipe.name} is for {wanted} spark(s), the cluster {member.cluster} has {have}"
    return what, "list it under the spark's own serve" if wanted == 1 else "use another cluster"
