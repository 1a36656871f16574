"""The operation on all that a machine serves: remove, run, ask, and only in its turn."""

from __future__ import annotations

import json
from collections.abc import Sequence

from pyinfra import host as current_host
from pyinfra import state as current_state
from pyinfra.api import FunctionCommand, operation

from sparkwright import report, serve_turn, serving
from sparkwright.endpoint import ask_line
from sparkwright.engines import Place
from sparkwright.facts import ask
from sparkwright.operations import Commands, as_pyinfra, failing, guarded
from sparkwright.paths import RUN
from sparkwright.resources import Command, write_file
from sparkwright.rollout import GO, Demand
from sparkwright.rollout_run import gate
from sparkwright.serve_answers import judge, refuse
from sparkwright.serve_turn import Look, Work, cluster_changes, probes, removal, seen
from sparkwright.serve_watch import watch_start
from sparkwright.site import Planned


@operation()
@guarded
def served(items: Sequence[Planned], place: Place) -> Commands:
    """
    Make what a machine serves be as wanted: unit files, boot state, processes, answers.

    Units of ours that the fleet no longer lists are removed; weights stay. What the installed build
    would refuse, or pass over, stops this before any unit is touched. Whatever stops a unit that
    runs waits for this machine's turn in the rollout (sparkwright/rollout.py), and the turn ends
    when every unit has answered its recipe's question.

    + items: the recipes on this machine
    + place: paths and account
    """
    executing = current_state.is_executing
    if executing:
        gate(current_state).arrive(current_host)
    found = _work(items, place, _look(items, place))
    if found.refused:
        if executing:
            gate(current_state).refuse(current_host)
        wrong = [*found.refused, *[f"{unit}: was not touched" for unit in _units(found)]]
        report.drift(current_host, list(found.refused))
        yield FunctionCommand(refuse, [wrong], {})
        return
    if executing:
        refusal = gate(current_state).enter(current_host, found.demand, cluster_changes(found))
        wrong = [f"{current_host.name}: {refusal}"] if refusal != GO else []
        if not wrong:
            found, wrong = _in_turn(items, place, found)
        if wrong:
            yield FunctionCommand(refuse, [wrong], {})
            return
    for item in found.well:
        report.record("endpoint", current_host, ask_line(item, current_host.data.dict()))
    if not found.drift:
        current_host.noop("everything runs as wanted and has answered")
        return
    report.drift(current_host, list(found.drift))
    yield from map(as_pyinfra, removal(found.gone))
    yield from _run(found)
    yield from _ask(items, place, found)


def _in_turn(items: Sequence[Planned], place: Place, found: Work) -> tuple[Work, list[str]]:
    """What there is to do now that it is this machine's turn, and why it may not be done.

    Others had their turns meanwhile, and a head's workers have their units only now.
    """
    heads = [item.member for item in items if item.member and item.member.is_head]
    moved = [gate(current_state).behind(current_host, head.names[1:]) for head in heads]
    if found.demand != Demand.SWAP and not any(moved):
        return found, []
    look = _look(items, place)
    found = _work(items, place, look)
    return found, serve_turn.unready(items, place, look, found)


def _look(items: Sequence[Planned], place: Place) -> Look:
    return seen(items, place, ask(current_host, probes(items, place)))


def _work(items: Sequence[Planned], place: Place, look: Look) -> Work:
    return serve_turn.work(items, place, look)


def _units(found: Work) -> list[str]:
    """Units of which something is refused, each once."""
    return list(dict.fromkeys(line.split(":", 1)[0] for line in found.refused))


def _run(found: Work) -> Commands:
    """Mend the units, one after the other; each start is followed until it serves.

    What is to stop comes first: a start may want its memory.
    """
    for item, plan in sorted(found.changes, key=lambda change: not change[1].stop):
        yield from map(as_pyinfra, plan.commands)
        if plan.start:
            yield FunctionCommand(watch_start, [f"{item.unit}.service", item], {})


def _ask(items: Sequence[Planned], place: Place, found: Work) -> Commands:
    """Ask every recipe that has not answered since its start."""
    if not (found.starts or found.unasked):
        return
    look = _look(items, place)  # a start has a new id
    for item, unit, kept in zip(items, look.units, look.kept, strict=True):
        active = unit.unit.get("ActiveState")
        if active != "active" and item.state == "running" and not serving.is_worker(item):
            yield failing(f"{item.unit}: cannot be asked, it is {active}")
        elif not serve_turn.answered(item, place, unit, kept):
            path = f"{RUN}/ask-{item.unit}.json"
            spec = json.dumps(serving.question(item, place, unit)).encode()
            yield as_pyinfra(Command(f"install -d -m 0755 {RUN}"))
            yield as_pyinfra(write_file(path, spec, "root", "root", "0600"))
            yield FunctionCommand(judge, [item, path], {})
