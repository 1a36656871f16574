"""TCP ports of a spark that serves recipes of its own and parts of its cluster's. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sparkwright.fleet_serve import Served
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
        taken = {port: served.recipe for served in own if (port := _port(served, recipes))}
        among: dict[int, str] = {}
        for at, served in enumerate(serve):
            for port, derived in _uses(_port(served, recipes), rank):
                # Two plain ports of one list: check_served has said so.
                other = taken.get(port) or among.get(port, served.recipe)
                if (
                    other != served.recipe
                    and (derived or port in taken)
                    and (at, other) not in said
                ):
                    said.add((at, other))
                    what = f"{served.recipe} needs port {port} on {name}, which {other} takes"
                    part.fail(f"serve/{at}", what, "give one of them another port")
                among.setdefault(port, served.recipe)


def _uses(port: int | None, rank: int) -> Iterator[tuple[int, bool]]:
    """(port, whether it is made from the recipe's) of one recipe on a member."""
    if port is None:
        return
    if rank == 0:
        yield port, False
    yield link_port(port), True
    yield engine_port(port), True


def _port(served: Served, recipes: Mapping[str, Recipe | None]) -> int | None:
    recipe = recipes.get(served.recipe)
    return served.port or (recipe.port if recipe else None)
