"""
Serve: one unit per recipe; the process that runs is compared with the unit that is wanted.

Leaves: /etc/systemd/system/llm-<recipe>.service, {etc_dir}/api-key when a recipe wants a key
Needs:  tasks.llama_cpp, tasks.vllm, tasks.container, tasks.weights, tasks.tiktoken
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyinfra import host
from pyinfra.api import deploy

from sparkwright.operations import ensure
from sparkwright.pair import link_unit
from sparkwright.place import place_of
from sparkwright.secret_env import SecretEnv
from sparkwright.serve_operations import served
from sparkwright.site import planned
from sparkwright.system import Secret


@deploy("serve")
def install(data: Mapping[str, Any]) -> None:
    """Units in the order of their names; a running one is touched only when its digest differs."""
    items = planned(data)
    if any(item.api_key == "generate" for item in items):
        key = Secret(f"{data['etc_dir']}/api-key", "root", data["service_user"], "0640")
        env = SecretEnv(f"{data['etc_dir']}/api-key.env", "VLLM_API_KEY", key.path)
        vllm = any(item.recipe.runs_vllm for item in items)
        ensure(name="Have an API key", resources=[key, *([env] if vllm else [])])
    if links := [link_unit(item) for item in items if item.member]:
        ensure(name="Link the members of a model", resources=links)
    for item in host.loop(items):
        served(
            name=f"Run {item.unit}.service",
            item=item,
            all_items=items,
            place=place_of(data),
        )
