"""What a machine is asked about the unit of one recipe, and its answers by name. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sparkwright import engine_container, engine_llama, engine_vllm, fabric, pair
from sparkwright.engines import Engine, Place
from sparkwright.paths import RUN
from sparkwright.resources import Spec, State
from sparkwright.site import UNIT_DIR, Planned
from sparkwright.weights_plan import STAMP

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
    + pair: what the link of a head says of the other members; empty elsewhere
    + ray: answers to `pair.ray_probes`
    + fabric: answer to `fabric.probe` of a member; link: to `pair.link_probes`
    """

    stamp: State
    host: State
    key: State
    file: State
    unit: State
    dropins: State
    mark: State
    engine: tuple[State, ...]
    pair: State = field(default_factory=dict)
    ray: tuple[State, ...] = ()
    fabric: State = field(default_factory=dict)
    link: tuple[State, ...] = ()


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
        *([pair.state_probe(item), *pair.ray_probes(item)] if is_head(item) else []),
        *([fabric.probe({"prefix": place.prefix}), *pair.link_probes(item)] if item.member else []),
        *ENGINES[item.recipe.engine].probes(item, place),
    ]


def seen(item: Planned, states: Sequence[State]) -> Seen:
    """Answers to `probes` by name."""
    stamp, host, key, file, unit, found, mark, *rest = states
    others = rest.pop(0) if is_head(item) else {}
    count = len(pair.ray_probes(item)) if is_head(item) else 0
    ray, rest = tuple(rest[:count]), rest[count:]
    cable = rest.pop(0) if item.member else {}
    count = len(pair.link_probes(item)) if item.member else 0
    link, rest = tuple(rest[:count]), rest[count:]
    return Seen(stamp, host, key, file, unit, found, mark, tuple(rest), others, ray, cable, link)


def is_head(item: Planned) -> bool:
    """Does this machine answer for several?"""
    return item.member is not None and item.member.is_head


def is_worker(item: Planned) -> bool:
    """Does another machine answer for this one?"""
    return item.member is not None and not item.member.is_head


def dropins(unit: str) -> list[str]:
    """A command that lists a unit's drop-ins, those as well that systemd has not read yet."""
    return ["find", "/etc/systemd", "/run/systemd", "-path", f"*/{unit}.d/*.conf"]


def restart_mark(unit: str) -> str:
    """A file that says that a restart is owed; it lies in /run, for a reboot is one too."""
    return f"{RUN}/owed-{unit}"
