"""Addresses of the models that a web page on one machine can reach: its own, and the fleet's. Pure.

A server on loopback is reached from its own machine alone; one without an API key can be asked by
whoever reaches it. One with a key is left out: the page's user adds it there, with the key.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sparkwright.fleet import Fleet, Spark
from sparkwright.fleet_serve import Served
from sparkwright.fleet_ssh import is_loopback
from sparkwright.recipe_types import Recipe
from sparkwright.site import Planned

# What is asked from the same machine instead of "every address".
_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared, not bound


def peers(fleet: Fleet, name: str) -> list[dict[str, Any]]:
    """What the data of one machine says of the others: name, address, serve, listen, api_key."""
    return [
        {
            "name": spark.name,
            "address": spark.address,
            "listen": spark.settings.get("listen"),
            "api_key": spark.settings.get("api_key"),
            "serve": [dataclasses.asdict(served) for served in _answered(fleet, spark)],
        }
        for spark in fleet.sparks
        if spark.name != name
    ]


def _answered(fleet: Fleet, spark: Spark) -> list[Served]:
    """What a spark answers for: its own recipes, and as the head those of its cluster."""
    led = [c for c in fleet.clusters if c.members[0].name == spark.name]
    return [*spark.serve, *(served for cluster in led for served in cluster.serve)]


def fleet_endpoints(
    items: Sequence[Planned], others: Sequence[Mapping[str, Any]], recipes: Mapping[str, Recipe]
) -> tuple[str, ...]:
    """
    Base addresses ("http://127.0.0.1:8001/v1"), this machine's first, in the order of the names.

    + items: what this machine serves; others: from `peers`
    """
    own = [
        _url(_ANY.get(item.listen, item.listen), item.port)
        for item in items
        if _is_model(item.recipe)
        and item.state == "running"
        and item.api_key != "generate"
        and (item.member is None or item.member.is_head)
    ]
    far = [url for other in others for url in _far(other, recipes)]
    return tuple(dict.fromkeys([*own, *far]))


def _far(other: Mapping[str, Any], recipes: Mapping[str, Recipe]) -> Iterator[str]:
    for served in sorted(other["serve"], key=lambda entry: str(entry["recipe"])):
        recipe = recipes.get(served["recipe"])
        listen = str(served.get("listen") or other["listen"] or "127.0.0.1")
        key = served.get("api_key") or other["api_key"] or "none"
        if recipe is None or not _is_model(recipe) or is_loopback(listen):
            continue
        if key != "generate" and served.get("state", "running") == "running":
            host = other["address"] if listen in _ANY else listen
            yield _url(str(host), served.get("port") or recipe.port)


def _is_model(recipe: Recipe) -> bool:
    return recipe.container is None or recipe.container.serves != "web"


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}/v1" if ":" in host else f"http://{host}:{port}/v1"
