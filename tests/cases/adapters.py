"""Operations whose arguments are objects, callable with what a case file can say."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from pyinfra.api import operation

from sparkwright import job_operations, operations, resources, system
from sparkwright.jobs import JobPlan
from sparkwright.operations import Commands
from sparkwright.resources import Command, Resource, State

KINDS: dict[str, Any] = {**vars(resources), **vars(system)}


@operation()
def ensure(wanted: list[dict[str, dict[str, Any]]]) -> Commands:
    """`operations.ensure`; a resource is `Kind: {its arguments}`."""
    made: list[Resource] = [
        KINDS[kind](**values) for entry in wanted for kind, values in entry.items()
    ]
    yield from operations.ensure._inner(resources=made)


def _plan(found: JobPlan, states: Sequence[State]) -> JobPlan:
    return found if states[0]["rc"] else JobPlan(notes=found.notes)


@operation()
def detached(
    specs: list[dict[str, Any]],
    drift: list[str],
    before: list[str],
    after: list[str],
    notes: list[str],
) -> Commands:
    """`job_operations.detached` with a plan that sees drift when the first answer's rc is not 0."""
    found = JobPlan(
        tuple(drift), None, tuple(map(Command, before)), tuple(map(Command, after)), tuple(notes)
    )
    yield from job_operations.detached._inner(specs=specs, plan=partial(_plan, found))
