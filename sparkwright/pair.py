"""A model that several machines serve together: what its parts share, and units beside it. Pure.

pair_link.py on the machines keeps the parts together; this says what it is told.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

from sparkwright import distributed
from sparkwright.digest import digest
from sparkwright.engines import Engine, Installed, Place
from sparkwright.member_units import PAIR, WAIT_S, MemberUnit, OwnUnit, link_text
from sparkwright.members import Member, engine_port, link_port
from sparkwright.paths import LIB
from sparkwright.resources import File, Spec, State
from sparkwright.site import UNIT_DIR, Planned, need
from sparkwright.units import Service, render_unit

PROGRAM = f"{LIB}/pair_link.py"
START = "--start"  # an option of it, for a model that is to run
__all__ = ["PAIR", "identity", "link_unit", "member_unit", "refused", "state_probe"]


def identity(
    engine: Engine, item: Planned, place: Place, have: Installed, manifest: str | None
) -> str:
    """Digest of what all parts must have in common: build, weights, commands of the workers.

    The same on every member, since a member can say what another one would run.
    """
    member = need(item.member)
    parts = []
    for rank in range(1, len(member.names)):
        part = dataclasses.replace(member, rank=rank)
        launch = engine.launch(dataclasses.replace(item, member=part), place, have)
        parts.append([*launch.argv])
    env = dict(item.recipe.env)
    return digest({"build": have.build, "manifest": manifest, "workers": parts, "env": env})


def link_name(item: Planned) -> str:
    """The link's unit, without ".service"."""
    return f"{item.unit}-pair"


def ray_name(item: Planned) -> str:
    """The unit of Ray's head, without ".service"."""
    return f"{item.unit}-ray"


def unit_names(item: Planned) -> list[str]:
    """Every unit of a recipe on one machine, without ".service"."""
    if item.member is None:
        return [item.unit]
    ray = item.member.is_head and item.recipe.spread.distributed == "ray"
    return [item.unit, link_name(item), *([ray_name(item)] if ray else [])]


def member_unit(item: Planned, place: Place, pair: str) -> MemberUnit | None:
    """What the model's own unit says of its part; None for a model on one machine."""
    member = item.member
    if member is None:
        return None
    part = MemberUnit(pair, link_name(item), networks=tuple(place.cluster.get("networks", ())))
    if not member.is_head:
        return part
    words = ["/usr/bin/python3", PROGRAM, "gate", *_words(item, member), "--pair", pair]
    # The worker's own memory gate waits as long as ours.
    words += ["--wait-s", str(Service.memory_wait_s + WAIT_S)]
    if item.recipe.spread.distributed == "rpc":
        # llama-server ends at once when it cannot reach an RPC server.
        words += ["--engine-port", str(engine_port(item.port))]
    ray = (ray_name(item),) if item.recipe.spread.distributed == "ray" else ()
    return dataclasses.replace(part, gate=tuple(words), requires=ray)


def _words(item: Planned, member: Member) -> list[str]:
    words = ["--unit", f"{item.unit}.service", "--port", str(link_port(item.port))]
    if not member.is_head:
        return [*words, "--own", member.own, "--head", member.head]
    return [*words, *(word for at in member.workers for word in ("--worker", at))]


def link_unit(item: Planned) -> OwnUnit:
    """The link beside the model's unit, on every member."""
    member = need(item.member)
    words = ["/usr/bin/python3", PROGRAM, "serve", *_words(item, member)]
    if member.is_head and item.state == "running":
        words.append(START)
    others = ", ".join(name for name in member.names if name != member.names[member.rank])
    about = f"{item.unit} together with {others}"
    text, known = link_text(f"{link_name(item)}.service", about, words)
    return OwnUnit(link_name(item), File(f"{UNIT_DIR}/{link_name(item)}.service", text), known)


def link_probes(item: Planned) -> list[Spec]:
    """Questions about the link of a part; the last one is whether it starts the model."""
    own = link_unit(item)
    return [*own.probes(), {"kind": "run", "argv": ["grep", "-qse", START, own.file.path]}]


def starts(states: Sequence[State]) -> bool:
    """Whether the link that is there starts the model, from the answers to `link_probes`."""
    return states[-1].get("rc") == 0


def beside(item: Planned, service: Service) -> tuple[OwnUnit, ...]:
    """Units that the model's own unit pulls in on this machine: Ray's head.

    vLLM's processes on this machine are Ray's children, so it has all that the model's unit has.
    """
    member = service.member
    if member is None or not member.requires or item.member is None:
        return ()
    program = service.argv[0].rsplit("/", 1)[0] + "/ray"
    ray = dataclasses.replace(
        service,
        name=ray_name(item),
        description=f"Ray of {service.description}",
        argv=distributed.ray_words(program, item.port, item.member),
        api_key_file=None,
        member=dataclasses.replace(member, gate=(), requires=(), part_of=item.unit),
    )
    return (OwnUnit(ray.name, File(f"{UNIT_DIR}/{ray.name}.service", render_unit(ray)), ""),)


def ray_probes(item: Planned) -> list[Spec]:
    """Questions about `beside`, as its units ask them; none for a model without Ray."""
    if item.recipe.spread.distributed != "ray":
        return []
    name = f"{ray_name(item)}.service"
    return [{"kind": "path", "path": f"{UNIT_DIR}/{name}"}, {"kind": "unit", "name": name}]


def state_probe(item: Planned) -> Spec:
    """Question to the head: do the parts belong together now?"""
    member = need(item.member)
    return {"kind": "run", "argv": ["python3", PROGRAM, "state", *_words(item, member)]}


def refused(item: Planned, pair: str, state: State) -> list[str]:
    """Why a head must not be started: the unit of a worker is of another pair.

    Asked when the workers of the same run have their units already (serve_operations.py).

    + state: answer to `state_probe`
    """
    found = _read(state)
    names = dict(zip(need(item.member).addresses, need(item.member).names, strict=True))
    return [
        f"{names.get(at, at)} has another build, other weights or settings for {item.unit} (pair "
        f"{have}, here {pair}); converge the whole cluster in one run"
        for at, have in sorted(found.get("files", {}).items())
        if have not in ("", pair)
    ]


def apart(state: State) -> list[str]:
    """Why the parts that run do not belong together, a phrase each."""
    return [str(why) for why in _read(state).get("apart", [])]


def _read(state: State) -> Mapping[str, Any]:
    try:
        found: Mapping[str, Any] = json.loads(state.get("out", ""))
    except ValueError:
        return {"apart": [f"the link did not answer: {state.get('err', '')[-200:]}"]}
    return found
