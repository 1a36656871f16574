"""
Serve: one unit per recipe; the process that runs is compared with the unit that is wanted.

What runs is stopped machine by machine, in the order of sparks.yaml: units that the fleet no longer
lists are removed, the others are restarted where they differ, and each recipe's question is asked
after each start, through the real API. HTTP 200 proves nothing. The first failure ends it.

Leaves: /etc/systemd/system/llm-<recipe>.service, and none of ours beside the listed ones;
        /var/lib/sparkwright/accepted/<unit>.json, the id of the start that answered;
        {etc_dir}/api-key when a recipe wants a key. Weights stay until they are pruned by hand.
Needs:  tasks.llama_cpp, tasks.vllm, tasks.container, tasks.weights, tasks.tiktoken
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyinfra.api import deploy

from sparkwright.operations import ensure
from sparkwright.place import place_of
from sparkwright.secret_env import SecretEnv
from sparkwright.serve_operations import served
from sparkwright.site import planned
from sparkwright.system import Secret


@deploy("serve")
def install(data: Mapping[str, Any]) -> None:
    """One operation, since a restart and its answer are one turn of the rollout."""
    items = planned(data)
    if any(item.api_key == "generate" for item in items):
        key = Secret(f"{data['etc_dir']}/api-key", "root", data["service_user"], "0640")
        env = SecretEnv(f"{data['etc_dir']}/api-key.env", "VLLM_API_KEY", key.path)
        vllm = any(item.recipe.runs_vllm for item in items)
        ensure(name="Have an API key", resources=[key, *([env] if vllm else [])])
    served(
        name="Run and ask, in turns",
        items=items,
        place=place_of(data),
    )
