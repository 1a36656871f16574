"""The unit of one recipe on one machine: what it should be, what differs, what to do. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sparkwright import engine_container, engine_llama, engine_vllm, library, memory, vllm_server
from sparkwright.digest import digest
from sparkwright.engines import Engine, Installed, Launch, Place, key_file
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


ENGINES: Mapping[str, Engine] = {
    "llama.cpp": engine_llama,
    "vllm": engine_vllm,
    "container": engine_container,
}


@dataclass(frozen=True)
class Seen:
    """A machine's answers about one unit, by name.

    + stamp: of the weights; file: of the unit; dropins: what lies in the directories
    + mark: the file that says that a restart is owed
    + engine: answers to the engine's own questions
    """

    stamp: State
    host: State
    key: State
    file: State
    unit: State
    dropins: State
    mark: State
    engine: tuple[State, ...]


def probes(item: Planned, place: Place) -> list[Spec]:
    """Questions that decide what the unit should be and what runs; `seen` takes the answers."""
    unit = f"{item.unit}.service"
    model = item.weights.directory if item.weights else f"{place.data_dir}/weights"
    return [
        # Not the agent's whole verdict: tasks/weights.py asked for that in the same run.
        {"kind": "path", "path": f"{model}/{STAMP}", "text": True},
        {"kind": "host"},
        {"kind": "path", "path": f"{place.etc_dir}/api-key"},
        {"kind": "path", "path": f"{UNIT_DIR}/{unit}"},
        {"kind": "unit", "name": unit},
        {"kind": "run", "argv": dropins(unit)},
        {"kind": "path", "path": restart_mark(unit)},
        *ENGINES[item.recipe.engine].probes(item, place),
    ]


def seen(states: Sequence[State]) -> Seen:
    """Answers to `probes` by name."""
    stamp, host, key, file, unit, found, mark, *rest = states
    return Seen(stamp, host, key, file, unit, found, mark, tuple(rest))


def launched(item: Planned, place: Place, found: Seen) -> tuple[Installed, Launch]:
    """What is installed for a recipe, and how it runs with that."""
    item, engine = in_use(item, found), ENGINES[item.recipe.engine]
    have = engine.installed(item, place, found.engine)
    launch = engine.launch(item, place, have)
    wrong = vllm_server.over_budget(item.recipe, found.host["mem_total"] / GIB)
    return have, dataclasses.replace(launch, refused=(*launch.refused, *wrong))


def in_use(item: Planned, found: Seen) -> Planned:
    """The recipe with those places of a library alone that its files are really used from."""
    if not item.weights or not item.weights.library:
        return item
    used = library.stamped(found.stamp)
    # Only what the fleet's library has: the stamp is the service user's.
    places = tuple(place for place in item.weights.library if place in used)
    return dataclasses.replace(item, weights=dataclasses.replace(item.weights, library=places))


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


def service_of(item: Planned, all_items: Sequence[Planned], place: Place, found: Seen) -> Service:
    """The wanted service, from the recipe and from what the machine answered."""
    have, launch = launched(item, place, found)
    item = in_use(item, found)
    plan = memory.plan(needs(all_items), available_gib(found.host, place.reserve_gib))
    service = _service(item, place, launch, tuple(plan.conflicts.get(item.unit, ())))
    parts = {
        "text": render_unit(service),
        "build": f"{have.build} {have.made}".rstrip(),
        "manifest": stamped_manifest(found.stamp) if item.weights else None,
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
