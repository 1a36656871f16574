"""
vLLM: an environment per profile that this machine's recipes name, from a locked wheel set.

Leaves: {prefix}/vllm/<profile>-<digest>/ and the link {prefix}/vllm/<profile>; {prefix}/uv/current
Needs:  tasks.base (python3-venv, our programs)
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from pyinfra import host
from pyinfra.api import deploy

from sparkwright import uv_client, vllm_venv
from sparkwright.job_operations import detached
from sparkwright.operations import ensure
from sparkwright.site import artifact, need
from sparkwright.sources import source_of
from sparkwright.system import Packages
from sparkwright.vllm_needs import environments


@deploy("vLLM")
def install(data: Mapping[str, Any]) -> None:
    """First uv, then one environment per profile; a machine without vLLM recipes gets nothing."""
    wanted = environments(data)
    if not wanted:
        return
    names = {name: None for item in wanted for name in item.profile.packages}
    source = source_of(data)
    packages = Packages(names, source.only())
    ensure(name="Install Python's headers and a compiler", resources=[packages])
    detached(
        name="Install uv",
        specs=uv_client.probes(data["prefix"]),
        plan=partial(
            uv_client.plan,
            data["prefix"],
            need(artifact(data, "uv").sha256),
            index=source.index(),
        ),
    )
    for item in host.loop(wanted):
        detached(
            name=f"Have vLLM, profile {item.profile.name}",
            specs=vllm_venv.probes(item),
            plan=partial(vllm_venv.plan, item),
        )
