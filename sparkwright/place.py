"""What every unit of one machine shares, from the machine's data. Pure but for the lock's file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparkwright.engines import Place
from sparkwright.fleet_endpoints import fleet_endpoints
from sparkwright.image_needs import artifacts
from sparkwright.site import lock_of, planned, recipes_of


def place_of(data: Mapping[str, Any]) -> Place:
    """Paths, account and images of a machine's units. Raises SparkwrightError."""
    items = planned(data)
    return Place(
        prefix=data["prefix"],
        data_dir=data["data_dir"],
        etc_dir=data["etc_dir"],
        user=data["service_user"],
        reserve_gib=data["memory_reserve_gib"],
        ollama_url=data["ollama_url"],
        gpus=data["container_gpus"],
        images=artifacts(items, lock_of(data)),
        cluster=data.get("cluster") or {},
        endpoints=fleet_endpoints(items, data["peers"], recipes_of(data)),
    )
