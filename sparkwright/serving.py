"""The unit of one recipe on one machine: what it should be, what differs, what to do. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sparkwright import llama_server, memory
from sparkwright.digest import digest
from sparkwright.paths import LIB, RUN
from sparkwright.resources import Spec, State
from sparkwright.site import UNIT_DIR, Planned
from sparkwright.units import Service, render_unit
from sparkwright.weights_plan import STAMP, stamped_manifest

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


def probes(item: Planned, weights: Mapping[str, Any], prefix: str, etc: str) -> list[Spec]:
    """Questions that decide what the unit should be and what runs."""
    unit = f"{item.unit}.service"
    return [
        {"kind": "path", "path": f"{prefix}/llama.cpp/current"},
        # Not the agent's whole verdict: tasks/weights.py asked for that in the same run.
        {"kind": "path", "path": f"{weights['dir']}/{STAMP}", "text": True},
        {"kind": "host"},
        {"kind": "path", "path": f"{etc}/api-key"},
        {"kind": "path", "path": f"{UNIT_DIR}/{unit}"},
        {"kind": "unit", "name": unit},
        {"kind": "run", "argv": dropins(unit)},
        {"kind": "path", "path": restart_mark(unit)},
    ]


def dropins(unit: str) -> list[str]:
    """A command that lists a unit's drop-ins, those as well that systemd has not read yet."""
    return ["find", "/etc/systemd", "/run/systemd", "-path", f"*/{unit}.d/*.conf"]


def restart_mark(unit: str) -> str:
    """A file that says that a restart is owed; it lies in /run, for a reboot is one too."""
    return f"{RUN}/owed-{unit}"


def needs(items: Sequence[Planned]) -> list[memory.Need]:
    """Memory claims of a machine's recipes."""
    return [memory.Need(i.unit, i.recipe.memory_gib, i.state) for i in items]


def available_gib(host: State, reserve_gib: float) -> float:
    """Memory that recipes may claim: all of it (from /proc/meminfo) less the reserve, GiB."""
    return float(host["mem_total"]) / GIB - reserve_gib


def key_file(item: Planned, etc: str) -> str | None:
    """The API key's file when this recipe wants a key."""
    return f"{etc}/api-key" if item.api_key == "generate" else None


@dataclass(frozen=True)
class Place:
    """What a unit needs to know of the machine's data."""

    prefix: str
    data_dir: str
    etc_dir: str
    user: str
    reserve_gib: float
    ollama_url: str


def service_of(
    item: Planned, all_items: Sequence[Planned], place: Place, states: Sequence[State]
) -> Service:
    """The wanted service, from the recipe and from what the machine answered."""
    build = states[0].get("target", "absent")
    plan = memory.plan(needs(all_items), available_gib(states[2], place.reserve_gib))
    service = Service(
        name=item.unit,
        description=item.recipe.description,
        user=place.user,
        argv=_argv(item, place, build),
        env=_env(item, place),
        port=item.port,
        listen=item.listen,
        memory_gib=item.recipe.memory_gib,
        load_timeout_s=item.recipe.load_timeout_s,
        conflicts=tuple(plan.conflicts.get(item.unit, ())),
        weights_dir=item.weights.directory,
        cache_dir=f"{place.data_dir}/cache/{item.unit}",
        api_key_file=key_file(item, place.etc_dir),
        lib_dir=LIB,
        ollama_url=place.ollama_url,
        devices=DEVICES,
        digest="",
    )
    parts = {
        "text": render_unit(service),
        "build": build,
        "manifest": stamped_manifest(states[1]),
        "key": states[3].get("sha256") if service.api_key_file else None,
    }
    return dataclasses.replace(service, digest=digest(parts))


def _argv(item: Planned, place: Place, build: str) -> tuple[str, ...]:
    # The build by its own name, not by the link: a switched link alone changes no process.
    return llama_server.argv(
        item.recipe,
        binary=f"{place.prefix}/llama.cpp/{build}/bin/llama-server",
        model=f"{item.weights.directory}/{llama_server.first_shard(item.files)}",
        port=item.port,
        listen=item.listen,
        api_key_file=key_file(item, place.etc_dir),
    )


def _env(item: Planned, place: Place) -> dict[str, str]:
    tiktoken = f"{place.data_dir}/tiktoken"
    names = ("TIKTOKEN_RS_CACHE_DIR", "TIKTOKEN_ENCODINGS_BASE", "TIKTOKEN_CACHE_DIR")
    return {**dict.fromkeys(names, tiktoken), **item.recipe.env}


def question(item: Planned, unit: State, etc: str) -> dict[str, Any]:
    """The spec of files/opt/sparkwright/lib/ask.py for one running unit."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(item.listen, item.listen)  # noqa: S104
    accept = item.recipe.acceptance
    # What was asked and expected: an answer counts for nothing when the recipe wants another.
    asked = digest({"model": item.recipe.served_name, **dataclasses.asdict(accept)})
    return {
        "unit": f"{item.unit}.service",
        "asked": asked,
        "invocation": unit.get("InvocationID", ""),
        "url": f"http://[{host}]:{item.port}" if ":" in host else f"http://{host}:{item.port}",
        "model": item.recipe.served_name,
        "question": accept.question,
        "max_tokens": accept.max_tokens,
        "expect": accept.expect,
        "finish_reason": accept.finish_reason,
        "log_must": list(accept.log_must),
        "log_must_not": list(accept.log_must_not),
        "key_file": key_file(item, etc),
        "timeout_s": item.recipe.load_timeout_s,
        "record": f"{ACCEPTED}/{item.unit}.json",
    }
