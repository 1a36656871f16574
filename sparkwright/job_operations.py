"""Operation on long work: start or join it, follow it, and say why it failed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyinfra import host as current_host
from pyinfra import state as current_state
from pyinfra.api import FunctionCommand, operation
from pyinfra.api.state import StateStage

from sparkwright import report, spread_operations, spread_run
from sparkwright.facts import ask
from sparkwright.job_watch import watch
from sparkwright.jobs import JobPlan, start_commands
from sparkwright.operations import Commands, as_pyinfra, guarded
from sparkwright.resources import Spec, State


@operation()
@guarded
def detached(specs: Sequence[Spec], plan: Callable[[list[State]], JobPlan]) -> Commands:
    """
    Do long work when its stamp does not record its inputs; show progress meanwhile.

    + specs: questions that the plan needs answered
    + plan: pure function from the answers to what has to happen
    """

    with spread_run.asking(current_state, current_host):
        wanted = plan(ask(current_host, specs))
        holds = wanted.held or not wanted.job
        share = spread_run.share_of(current_state, current_host, wanted.item, holds)
    for text in wanted.notes:
        report.note(current_host, text)
    if not wanted.drift:
        current_host.noop("the stamp records these inputs")
        return
    report.drift(current_host, list(wanted.drift))
    job, executing = wanted.job, current_state.current_stage == StateStage.Execute
    if share and job and executing and not wanted.held:
        spread_run.gather(current_state)
        get = spread_operations.files if share.item.files else spread_operations.tree
        yield from get(share, wanted, job)
        return
    yield from map(as_pyinfra, wanted.before)
    if job:
        yield from map(as_pyinfra, start_commands(job))
        yield FunctionCommand(watch, [job], {})
    yield from map(as_pyinfra, wanted.after)
