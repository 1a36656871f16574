"""Which vLLM environments the recipes of one machine need, and out of which artifacts. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparkwright.lock_wheels import locked_text
from sparkwright.members import entries
from sparkwright.site import artifact, need, recipes_of, upstream_lock
from sparkwright.sources import source_of
from sparkwright.vllm_profiles import load_patch, profile_of, requirements
from sparkwright.vllm_venv import Wanted


def profile_names(data: Mapping[str, Any]) -> list[str]:
    """The profiles that the recipes of a machine and of its cluster name, each once.

    Those that name none take the machine's own.
    """
    recipes = recipes_of(data)
    names = [entry["recipe"] for _, entry, _ in entries(data)]
    served = [recipes[name] for name in names if name in recipes]
    named = {recipe.profile or str(data["vllm_profile"]) for recipe in served
             if recipe.engine == "vllm"}  # fmt: skip
    return sorted(named)


def artifact_names(data: Mapping[str, Any]) -> list[str]:
    """The artifacts of those profiles, known to the lock or not; empty without vLLM recipes."""
    profiles = [profile_of(name) for name in profile_names(data)]
    names = [name for item in profiles for name in (item.artifact, *item.wheels)]
    return list(dict.fromkeys(["uv", *names] if names else []))


def environments(data: Mapping[str, Any]) -> list[Wanted]:
    """The environments of one machine.

    Raises SparkwrightError when the lock does not know all wheels of one.
    """
    return [environment(data, name) for name in profile_names(data)]


def environment(data: Mapping[str, Any], name: str) -> Wanted:
    """One environment, by its profile's name. Raises SparkwrightError."""
    # The environment's name depends on the lock alone: another source installs nothing anew.
    lock = upstream_lock(data)
    found = lock.artifact(profile_of(name).artifact)
    profile = profile_of(name, found)
    wheels = [lock.artifact(wheel) for wheel in profile.wheels]
    return Wanted(
        profile=profile,
        requirements=requirements(locked_text(lock, found), wheels),
        patches=tuple(load_patch(patch) for patch in profile.patches),
        uv=need(lock.artifact("uv").version),
        arch=str(data["arch"]),
        prefix=str(data["prefix"]),
        user=str(data["service_user"]),
        keep=int(data["vllm_keep"]),
        index=source_of(data).index(),
        places=tuple((need(w.url), need(artifact(data, w.name).url)) for w in wheels),
    )
