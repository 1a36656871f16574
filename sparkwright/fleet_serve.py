"""What a spark serves: the serve list of sparks.yaml, checked against the recipes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sparkwright.errors import nearest
from sparkwright.fleet_ssh import is_loopback, listen_problem
from sparkwright.members import Member, misplaced
from sparkwright.recipes import Recipe
from sparkwright.yaml_reader import Reader, between, one_of


@dataclass(frozen=True)
class Served:
    """One recipe on one spark; None means: as the recipe (port) or the settings (the rest) say.

    + state: "running", or "standby": installed, started by hand
    """

    recipe: str
    port: int | None = None
    listen: str | None = None
    api_key: str | None = None
    state: str = "running"


def read_serve(part: Reader) -> tuple[Served, ...]:
    """The serve list of a spark: recipe names, or maps with more to say."""
    served = []
    for place, item in part.entries("serve"):
        if isinstance(item, str):
            served.append(Served(item))
        elif isinstance(item, dict):
            served.append(_served(part.at(place, item)))
        else:
            part.fail(place, "must be a recipe's name or a map", "write - name of a recipe")
            served.append(Served(""))
    return tuple(served)


def _served(part: Reader) -> Served:
    served = Served(
        recipe=part.take("recipe", str),
        port=part.take("port", int, None, check=between(1, 65535)),
        listen=part.take("listen", str, None, check=listen_problem),
        api_key=part.take("api_key", str, None, check=one_of("none", "generate", "open")),
        state=part.take("state", str, "running", check=one_of("running", "standby")),
    )
    part.finish()
    return served


def check_served(
    part: Reader,
    serve: Sequence[Served],
    settings: Mapping[str, object],
    recipes: Mapping[str, Recipe | None],
    member: Member | None = None,
) -> None:
    """Record what cannot be served: unknown or repeated recipes, port clashes, open doors.

    + settings: the spark's settings with defaults
    + recipes: by name; None for a file that is broken (and reported already)
    + member: any part of the cluster whose list this is
    """
    ports: dict[int, str] = {}
    names: list[str] = []
    for at, served in enumerate(serve):
        place, name = f"serve/{at}", served.recipe
        if name and name not in recipes:
            part.fail(place, f"no recipe named {name}", nearest(name, recipes))
        if name and name in names:
            part.fail(place, f"{name} is served twice", "a recipe can be there once; keep one")
        names.append(name)
        _check_door(part, place, served, settings)
        recipe = recipes.get(name)
        if recipe and (wrong := misplaced(recipe, member)):
            part.fail(place, *wrong)
        port = port_of(served, recipe)
        if port is None or names.count(name) > 1:
            continue
        if ports.setdefault(port, name) != name:
            hint = f"write {{recipe: {name}, port: {_free(port, ports)}}}"
            part.fail(place, f"port {port} is taken by {ports[port]}", hint)


def port_of(served: Served, recipe: Recipe | None) -> int | None:
    """The TCP port of what is served; None when its recipe is broken and none is written here."""
    return served.port or (recipe.port if recipe else None)


def _check_door(part: Reader, place: str, served: Served, settings: Mapping[str, object]) -> None:
    listen = str(served.listen or settings.get("listen", "127.0.0.1"))
    api_key = served.api_key or settings.get("api_key", "none")
    if api_key == "none" and not is_loopback(listen):
        what = f"listens on {listen} with api_key none"
        hint = "set api_key: generate, or api_key: open to say that everybody may ask"
        part.fail(place, what, hint)


def _free(port: int, taken: Mapping[int, str]) -> int:
    """The next port that this spark's other recipes leave free."""
    return next(free for free in range(port + 1, port + 2 + len(taken)) if free not in taken)
