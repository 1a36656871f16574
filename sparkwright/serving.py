"""The unit of one recipe on one machine: what it should be, what differs, what to do. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from sparkwright import (
    fabric,
    library,
    member_units,
    memory,
    pair,
    vllm_server,
)
from sparkwright.digest import digest
from sparkwright.engines import Installed, Launch, Place, key_file
from sparkwright.errors import SparkwrightError
from sparkwright.fabric_env import fabric_env
from sparkwright.paths import LIB
from sparkwright.resources import State
from sparkwright.serving_seen import (
    ENGINES,
    Seen,
    dropins,
    is_head,
    is_worker,
    probes,
    restart_mark,
    seen,
)
from sparkwright.site import Planned
from sparkwright.units import Service, render_unit
from sparkwright.weights_plan import stamped_manifest

# What is asked and answered is a module of its own; serving.probes is how others name it.
__all__ = [
    "ENGINES",
    "Seen",
    "dropins",
    "is_head",
    "is_worker",
    "probes",
    "restart_mark",
    "seen",
    "service_of",
]

GIB = 2**30
DEVICES = (
    "/dev/nvidiactl",
    "/dev/nvidia0",
    "/dev/nvidia-uvm",
    "/dev/nvidia-uvm-tools",
    "/dev/nvidia-modeset",
    "char-nvidia-caps",
)
ACCEPTED = "/var/lib/sparkwright/accepted"


def launched(item: Planned, place: Place, found: Seen) -> tuple[Installed, Launch]:
    """What is installed for a recipe, and how it runs with that."""
    item, engine = in_use(item, found), ENGINES[item.recipe.engine]
    have = engine.installed(item, place, found.engine)
    launch = engine.launch(item, place, have)
    wrong = vllm_server.over_budget(item.recipe, found.host["mem_total"] / GIB)
    env, lacking = _fabric(item, place, found)
    refused = (*launch.refused, *wrong, *lacking)
    return have, dataclasses.replace(launch, env={**env, **launch.env}, refused=refused)


def in_use(item: Planned, found: Seen) -> Planned:
    """The recipe with those places of a library alone that its files are really used from."""
    if not item.weights or not item.weights.library:
        return item
    used = library.stamped(found.stamp)
    # Only what the fleet's library has: the stamp is the service user's.
    places = tuple(place for place in item.weights.library if place in used)
    return dataclasses.replace(item, weights=dataclasses.replace(item.weights, library=places))


def _fabric(item: Planned, place: Place, found: Seen) -> tuple[Mapping[str, str], list[str]]:
    """Variables of this machine's own part of the fabric, and why there are none."""
    if item.member is None or not item.recipe.runs_vllm:
        return {}, []
    try:
        return fabric_env(place.cluster, item.member.rank, fabric.read(found.fabric)), []
    except SparkwrightError as error:
        return {}, str(error).splitlines()


def needs(items: Sequence[Planned]) -> list[memory.Need]:
    """Memory claims of a machine's recipes."""
    return [memory.Need(i.unit, i.recipe.memory_gib, i.state) for i in items]


def available_gib(host: State, reserve_gib: float) -> float:
    """Memory that recipes may claim: all of it (from /proc/meminfo) less the reserve, GiB."""
    return float(host["mem_total"]) / GIB - reserve_gib


def service_of(item: Planned, all_items: Sequence[Planned], place: Place, found: Seen) -> Service:
    """The wanted service, from the recipe and from what the machine answered."""
    have, launch = launched(item, place, found)
    item = in_use(item, found)
    plan = memory.plan(needs(all_items), available_gib(found.host, place.reserve_gib))
    manifest = stamped_manifest(found.stamp) if item.weights else None
    service = _service(item, place, launch, tuple(plan.conflicts.get(item.unit, ())))
    if item.member:
        shared = pair.identity(ENGINES[item.recipe.engine], item, place, have, manifest)
        devices = (*service.devices, *member_units.DEVICES)
        member = pair.member_unit(item, place, shared)
        service = dataclasses.replace(service, member=member, devices=devices)
    parts = {
        "text": render_unit(service),
        "build": f"{have.build} {have.made}".rstrip(),
        "manifest": manifest,
        "key": found.key.get("sha256") if item.api_key == "generate" else None,
    }
    return dataclasses.replace(service, digest=digest(parts))


def _service(item: Planned, place: Place, launch: Launch, conflicts: tuple[str, ...]) -> Service:
    recipe, cache = item.recipe, f"{place.data_dir}/cache/{item.unit}"
    return Service(
        name=item.unit,
        description=recipe.description,
        user=place.user,
        argv=launch.argv,
        env=launch.env,
        port=item.port,
        listen=item.listen,
        memory_gib=recipe.memory_gib,
        load_timeout_s=recipe.load_timeout_s,
        conflicts=conflicts,
        weights_dir=item.weights.directory if item.weights else cache,
        cache_dir=cache,
        api_key_file=key_file(item, place.etc_dir) if recipe.engine == "llama.cpp" else None,
        lib_dir=LIB,
        ollama_url=place.ollama_url,
        devices=() if recipe.container else DEVICES,
        digest="",
        container=recipe.container is not None,
        env_file=env_file(item, place.etc_dir),
        health=recipe.container.health if recipe.container else "/health",
        library=item.weights.library if item.weights else (),
        # When its engine has died `vllm serve` ends with 0 (entrypoints/launchers/launcher.py,
        # terminate_if_errored, 0.32). What systemctl stops stays stopped all the same.
        restart="always" if recipe.runs_vllm else "on-failure",
    )


def env_file(item: Planned, etc: str) -> str | None:
    """The file by which vLLM gets its API key: it knows no key file, only this variable."""
    wanted = item.recipe.runs_vllm and item.api_key == "generate"
    return f"{etc}/api-key.env" if wanted else None


def question(item: Planned, place: Place, found: Seen) -> dict[str, Any]:
    """The spec of files/opt/sparkwright/lib/ask.py for one running unit."""
    launch = launched(item, place, found)[1]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(item.listen, item.listen)  # noqa: S104
    accept = item.recipe.acceptance
    container = item.recipe.container
    # What was asked and expected: an answer counts for nothing when the recipe wants another.
    asked = {"model": item.recipe.served_name, **dataclasses.asdict(accept)}
    asked |= {
        "log_must": [*accept.log_must, *launch.log_must],
        "log_must_not": [*accept.log_must_not, *launch.log_must_not],
    }
    return {
        **asked,
        "asked": digest(asked),
        "unit": f"{item.unit}.service",
        "invocation": found.unit.get("InvocationID", ""),
        "notes": list(launch.notes),
        "serves": container.serves if container else item.recipe.engine,
        "url": f"http://[{host}]:{item.port}" if ":" in host else f"http://{host}:{item.port}",
        "health": container.health if container else "/health",
        "key_file": key_file(item, place.etc_dir),
        "timeout_s": item.recipe.load_timeout_s,
        "record": f"{ACCEPTED}/{item.unit}.json",
    }
