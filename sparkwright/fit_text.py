"""What `sparkwright fit` prints: for people and for programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkwright.fit import Fit, Machine, Part
from sparkwright.recipe_types import Recipe
from sparkwright.roofline import Roof


def lines(
    recipe: Recipe, machine: Machine, found: Fit, others: Sequence[Part], top: Roof | None
) -> list[str]:
    """The answer for people."""
    head = f"{recipe.name} ({found.engine}), {found.users} user(s) of {found.context} tokens"
    shown = [head, *(f"  {part.name:<14}{part.gib:7.1f} GiB  {part.why}" for part in found.parts)]
    shown.append(f"  {'needed':<14}{found.needed_gib:7.1f} GiB")
    shown.append(f"  {'available':<14}{found.available_gib:7.1f} GiB  {_available(machine)}")
    shown.append(_verdict(found))
    shown.append(
        f"at most: {found.max_context} tokens for {found.users} user(s), "
        f"{found.max_users} user(s) of {found.context} tokens"
    )
    shown += _share(recipe, found)
    if found.fits:
        names = ", ".join(f"{part.name} ({part.gib:g})" for part in others) or "no other recipe"
        claimed = f"{max(recipe.memory_gib, found.needed_gib):.1f}"
        shown.append(f"beside its {claimed} GiB may stay resident, each alone: {names}")
    if found.fits and recipe.memory_gib < found.needed_gib:
        shown.append(
            f"memory_gib is {recipe.memory_gib:g}, the sum is {found.needed_gib:.1f}: raise it"
        )
    if top:
        shown.append(
            f"decode roof: {top.rate:.0f} tok/s for one user at the start of a context "
            f"({top.weights / 1e9:.2f} GB read a token)"
        )
    shown += [f"note: {text}" for text in found.notes]
    return [*shown, *(f"from {text}" for text in found.sources)]


def _available(machine: Machine) -> str:
    beside = "".join(f" - {part.gib:g} {part.name}" for part in machine.beside)
    return f"{machine.total_gib:g} - {machine.reserve_gib:g} reserve{beside}, less what wedges"


def _verdict(found: Fit) -> str:
    if found.fits:
        return f"FITS, {found.free_gib:.1f} GiB stay free for others"
    return f"DOES NOT FIT: {-found.free_gib:.1f} GiB too much"


def _share(recipe: Recipe, found: Fit) -> list[str]:
    if found.engine != "vllm":
        return []
    now = recipe.flags.get("gpu-memory-utilization")
    shown = []
    if found.share is not None:
        shown.append(f"gpu-memory-utilization: {found.share:g} (the recipe says {now})")
        shown += [f"  {text}" for text in found.why]
    if found.pool:
        gib, users = found.pool
        shown.append(
            f"with the recipe's {now}: a KV pool of {gib:.1f} GiB, {users} user(s) of "
            f"{found.context} tokens at once; more wait"
        )
    return shown


def as_json(
    recipe: Recipe, machine: Machine, found: Fit, others: Sequence[Part], top: Roof | None
) -> dict[str, Any]:
    """The answer for programs, as docs/schemas/fit.json describes it; sizes in GiB."""
    pool = {"gib": round(found.pool[0], 3), "users": found.pool[1]} if found.pool else None
    return {
        "recipe": recipe.name,
        "engine": found.engine,
        "context": found.context,
        "users": found.users,
        "fits": found.fits,
        "parts": [_part(part) for part in found.parts],
        "needed_gib": round(found.needed_gib, 3),
        "available_gib": round(found.available_gib, 3),
        "free_gib": round(found.free_gib, 3),
        "machine": {
            "total_gib": machine.total_gib,
            "reserve_gib": machine.reserve_gib,
            "beside": [_part(part) for part in machine.beside],
        },
        "max_context": found.max_context,
        "max_users": found.max_users,
        "kv_bytes_per_token": found.kv_token,
        "gpu_memory_utilization": found.share,
        "why": list(found.why),
        "pool_now": pool,
        "memory_gib_of_recipe": recipe.memory_gib,
        "resident_beside": [part.name for part in others],
        "decode_roof_tok_s": round(top.rate, 2) if top else None,
        "notes": list(found.notes),
        "sources": list(found.sources),
    }


def _part(part: Part) -> dict[str, Any]:
    return {"name": part.name, "gib": round(part.gib, 3), "why": part.why}
