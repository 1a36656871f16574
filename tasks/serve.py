"""
Serve: one unit per recipe; the process that runs is compared with the unit that is wanted.

Leaves: /etc/systemd/system/llm-<recipe>.service, {etc_dir}/api-key when a recipe wants a key
Needs:  tasks.llama_cpp, tasks.weights, tasks.tiktoken
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyinfra import host
from pyinfra.api import deploy

from sparkwright.operations import ensure
from sparkwright.serve_operations import served
from sparkwright.serving import Place
from sparkwright.site import lock_of, planned
from sparkwright.system import Secret
from sparkwright.weights_plan import spec_of


@deploy("serve")
def install(data: Mapping[str, Any]) -> None:
    """Units in the order of their names; a running one is touched only when its digest differs."""
    items = planned(data)
    if any(item.api_key == "generate" for item in items):
        key = Secret(f"{data['etc_dir']}/api-key", "root", data["service_user"], "0640")
        ensure(name="Have an API key", resources=[key])
    for item in host.loop(items):
        served(
            name=f"Run {item.unit}.service",
            item=item,
            all_items=items,
            place=place(data),
            weights=spec_of(item.weights, data, lock_of(data).hub),
        )


def place(data: Mapping[str, Any]) -> Place:
    """Paths and account that every unit of a machine shares."""
    return Place(
        prefix=data["prefix"],
        data_dir=data["data_dir"],
        etc_dir=data["etc_dir"],
        user=data["service_user"],
        reserve_gib=data["memory_reserve_gib"],
        ollama_url=data["ollama_url"],
    )
