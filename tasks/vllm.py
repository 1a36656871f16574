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
from sparkwright.lock_wheels import locked_text
from sparkwright.operations import ensure
from sparkwright.site import artifact, lock_of, need, planned
from sparkwright.system import Packages
from sparkwright.vllm_profiles import Profile, load_patch, profile_of, requirements


@deploy("vLLM")
def install(data: Mapping[str, Any]) -> None:
    """First uv, then one environment per profile; a machine without vLLM recipes gets nothing."""
    wanted = environments(data)
    if not wanted:
        return
    packages = {name: None for item in wanted for name in item.profile.packages}
    ensure(name="Install Python's headers and a compiler", resources=[Packages(packages)])
    tool = artifact(data, "uv")
    detached(
        name="Install uv",
        specs=uv_client.probes(data["prefix"]),
        plan=partial(uv_client.plan, data["prefix"], need(tool.sha256)),
    )
    for item in host.loop(wanted):
        detached(
            name=f"Have vLLM, profile {item.profile.name}",
            specs=vllm_venv.probes(item),
            plan=partial(vllm_venv.plan, item),
        )


def environments(data: Mapping[str, Any]) -> list[vllm_venv.Wanted]:
    """The environments that a machine's data asks for."""
    recipes = [item.recipe for item in planned(data) if item.recipe.engine == "vllm"]
    names = {recipe.profile or str(data["vllm_profile"]) for recipe in recipes}
    return [wanted(data, name) for name in sorted(names)]


def wanted(data: Mapping[str, Any], name: str) -> vllm_venv.Wanted:
    """One environment. Raises SparkwrightError when the lock does not know all of its wheels."""
    own = profile_of(name)
    found = artifact(data, own.artifact)
    profile: Profile = profile_of(name, found)
    wheels = [artifact(data, wheel) for wheel in profile.wheels]
    return vllm_venv.Wanted(
        profile=profile,
        requirements=requirements(locked_text(lock_of(data), found), wheels),
        patches=tuple(load_patch(patch) for patch in profile.patches),
        uv=need(artifact(data, "uv").version),
        arch=str(data["arch"]),
        prefix=str(data["prefix"]),
        user=str(data["service_user"]),
        keep=int(data["vllm_keep"]),
    )
