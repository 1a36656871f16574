"""What a machine has to do to everything it serves, from one look at it. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sparkwright import memory, pair, serve_plan, serving
from sparkwright.engines import Place
from sparkwright.pair import unit_names
from sparkwright.preflight_seen import OURS
from sparkwright.resources import Command, Spec, State, quote
from sparkwright.rollout import Demand
from sparkwright.serve_plan import ServePlan
from sparkwright.serving import Seen
from sparkwright.site import UNIT_DIR, Planned
from sparkwright.unit_lint import linted


@dataclass(frozen=True)
class Look:
    """What a machine answered about all that it serves.

    + ours: our unit files, those of retired recipes too
    + units: an answer for each recipe; kept: the record of each one's last answer
    """

    ours: tuple[str, ...]
    units: tuple[Seen, ...]
    kept: tuple[State, ...]


@dataclass(frozen=True)
class Work:
    """What differs and what to do.

    + gone: unit files that the fleet no longer lists
    + changes: recipes that differ, each with its plan
    + unasked: recipes that run as wanted and have not answered since their start
    + refused: why something cannot be had at all, a line each
    + drift: everything that differs, a phrase each
    + well: recipes that run as wanted and have answered
    """

    gone: tuple[str, ...] = ()
    changes: tuple[tuple[Planned, ServePlan], ...] = ()
    unasked: tuple[Planned, ...] = ()
    refused: tuple[str, ...] = ()
    drift: tuple[str, ...] = ()
    well: tuple[Planned, ...] = ()
    demand: Demand = Demand.NOTHING

    @property
    def starts(self) -> bool:
        """Whether a unit is started."""
        return any(plan.start for _, plan in self.changes)


def record(item: Planned) -> str:
    """The file that says for which start a recipe has answered."""
    return f"{serving.ACCEPTED}/{item.unit}.json"


def probes(items: Sequence[Planned], place: Place) -> list[Spec]:
    """Questions for one round trip; `seen` takes the answers."""
    asked: list[Spec] = [{"kind": "run", "argv": OURS}]
    for item in items:
        asked += [{"kind": "path", "path": record(item), "text": True}]
        asked += serving.probes(item, place)
    return asked


def seen(items: Sequence[Planned], place: Place, states: Sequence[State]) -> Look:
    """Answers to `probes` by name."""
    found = [path for path in states[0].get("out", "").split() if path.startswith(f"{UNIT_DIR}/")]
    ours = tuple(path for path in found if path.rsplit("/", 1)[0] == UNIT_DIR)
    units, kept, at = [], [], 1
    for item in items:
        end = at + 1 + len(serving.probes(item, place))
        kept.append(states[at])
        units.append(serving.seen(item, states[at + 1 : end]))
        at = end
    return Look(ours, tuple(units), tuple(kept))


def work(items: Sequence[Planned], place: Place, look: Look) -> Work:
    """Compare everything that a machine serves with what is wanted. Raises SparkwrightError."""
    names = {f"{name}.service" for item in items for name in unit_names(item)}
    gone = tuple(sorted({path.rsplit("/", 1)[1] for path in look.ours} - names))
    changes: list[tuple[Planned, ServePlan]] = []
    unasked: list[Planned] = []
    well: list[Planned] = []
    refused: list[str] = []
    for item, found, kept in zip(items, look.units, look.kept, strict=True):
        have, launch = serving.launched(item, place, found)
        service = serving.service_of(item, items, place, found)
        plan = serve_plan.plan(item, service, found)
        # A unit that is as wanted was judged when it was written.
        wrong = launch.refused or (linted(service, have.facts) if plan.drift else ())
        refused += [f"{item.unit}: {what}" for what in wrong]
        if plan.drift:
            changes.append((item, plan))
        owes = not answered(item, place, found, kept)
        runs = found.unit.get("ActiveState") == "active" and not serving.is_worker(item)
        if not (plan.start or plan.stop) and runs:
            (unasked if owes else well).append(item)
    drift = [f"{name}: no longer in the fleet" for name in gone]
    drift += [what for _, plan in changes for what in plan.drift]
    drift += [f"{i.unit}: has not answered its question since this start" for i in unasked]
    demand = _demand(items, place, look, changes, bool(gone), bool(unasked))
    lists = tuple(changes), tuple(unasked), tuple(refused), tuple(drift), tuple(well)
    return Work(gone, *lists, demand)


def _demand(
    items: Sequence[Planned],
    place: Place,
    look: Look,
    changes: Sequence[tuple[Planned, ServePlan]],
    removes: bool,
    asks: bool,
) -> Demand:
    """Whether a unit that runs would be stopped: it, one of its Conflicts=, or a retired one."""
    # A worker is started by its head: its file changes in the turn of both.
    starts = {i.unit for i, plan in changes if plan.start or (serving.is_worker(i) and plan.joint)}
    pairs = zip(items, look.units, strict=True)
    active = {item.unit for item, found in pairs if found.unit.get("ActiveState") == "active"}
    stopped = starts | {i.unit for i, plan in changes if plan.stop}
    if starts:
        free = serving.available_gib(look.units[0].host, place.reserve_gib)
        for unit, others in memory.plan(serving.needs(items), free).conflicts.items():
            stopped |= set(others) if unit in starts else set()
            stopped |= {unit} if starts & set(others) else set()
    if removes or stopped & active:
        return Demand.SWAP
    joint = any(plan.joint for _, plan in changes)
    return Demand.START if starts or asks or joint else Demand.NOTHING


def answered(item: Planned, place: Place, found: Seen, kept: State) -> bool:
    """Whether a recipe owes no answer: it does not run, or it answered after this start.

    A worker's head is asked for both.
    """
    if found.unit.get("ActiveState") != "active" or serving.is_worker(item):
        return True
    spec = serving.question(item, place, found)
    return bool(kept.get("text")) and _same(kept["text"], spec)


def _same(text: str, spec: Mapping[str, Any]) -> bool:
    try:
        have = json.loads(text)
    except ValueError:
        return False
    wanted = {key: spec[key] for key in ("invocation", "asked")}
    return {key: have.get(key) for key in wanted} == wanted


def unready(items: Sequence[Planned], place: Place, look: Look, found: Work) -> list[str]:
    """Why a head may not be started: a worker's unit is not of this pair, a line each."""
    starts = {item.unit for item, plan in found.changes if plan.start}
    lines = []
    for item, seen_ in zip(items, look.units, strict=True):
        member = serving.service_of(item, items, place, seen_).member
        if member and not member.is_worker and item.unit in starts:
            lines += pair.refused(item, member.pair, seen_.pair)
    return lines


def removal(gone: Sequence[str]) -> list[Command]:
    """Stop, disable and remove unit files of ours; weights stay."""
    commands = []
    for name in gone:
        kept = f"{serving.ACCEPTED}/{name.removesuffix('.service')}.json"
        unit = quote(name)
        commands.append(Command(f"systemctl --quiet disable --now {unit}"))
        # One that had failed would stay in `systemctl --failed` without its file.
        reset = f"if systemctl --quiet is-failed {unit}; then systemctl reset-failed {unit}; fi"
        commands.append(Command(reset))
        commands.append(Command(f"rm -f {quote(f'{UNIT_DIR}/{name}', kept)}"))
    return [*commands, Command("systemctl daemon-reload")] if gone else []


def cluster_changes(found: Work) -> bool:
    """Whether a unit differs that runs on several machines together."""
    return any(plan.joint for _, plan in found.changes)
