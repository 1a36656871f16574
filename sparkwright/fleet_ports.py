"""TCP ports of a spark that serves recipes of its own and parts of its cluster's. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sparkwright.fleet_serve import Served, port_of
from sparkwright.members import engine_port, link_port
from sparkwright.recipes import Recipe
from sparkwright.yaml_reader import Reader


def check_member_ports(
    part: Reader,
    serve: Sequence[Served],
    members: Sequence[tuple[str, Sequence[Served]]],
    recipes: Mapping[str, Recipe | None],
) -> None:
    """
    Record ports that two recipes would take on one member.

    + part: reader of the cluster
    + serve: what the cluster serves
    + members: (name, its own recipes) in order of rank
    + recipes: by name; None for a file that is broken (and reported already)
    """
    said: set[tuple[int, str]] = set()
    for rank, (name, own) in enumerate(members):
        taken = {port_of(one, recipes.get(one.recipe)): one.recipe for one in own}
        for at, port, other in _clashes(serve, taken, rank, recipes):
            if (at, other) not in said:
                said.add((at, other))
                what = f"{serve[at].recipe} needs port {port} on {name}, which {other} takes"
                part.fail(f"serve/{at}", what, "give one of them another port")


def _clashes(
    serve: Sequence[Served],
    own: Mapping[int | None, str],
    rank: int,
    recipes: Mapping[str, Recipe | None],
) -> Iterator[tuple[int, int, str]]:
    """(index, port, who has it) of what the cluster serves on one member.

    + own: port -> the member's own recipe
    """
    among: dict[int, str] = {}
    for at, served in enumerate(serve):
        for port, derived in _uses(port_of(served, recipes.get(served.recipe)), rank):
            # Two plain ports of one list: check_served has said so.
            other = own.get(port) or (among.get(port) if derived else None)
            if other and other != served.recipe:
                yield at, port, other
            among.setdefault(port, served.recipe)


def _uses(port: int | None, rank: int) -> Iterator[tuple[int, bool]]:
    """(port, whether it is made from the recipe's) of one recipe on a member."""
    if port is None:
        return
    if rank == 0:
        yield port, False
    yield link_port(port), True
    yield engine_port(port), True
