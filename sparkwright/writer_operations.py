"""The operation that lets one converge at a time change a machine."""

from __future__ import annotations

from pyinfra import host as current_host
from pyinfra import state as current_state
from pyinfra.api import FunctionCommand, operation

from sparkwright.operations import Commands, guarded
from sparkwright.serve_answers import refuse
from sparkwright.writer_run import writer_of


@operation()
@guarded
def alone() -> Commands:
    """Take the locks of all machines of this run, or of none; a dry run takes none."""
    problem = writer_of(current_state).take(current_host) if current_state.is_executing else ""
    if problem:
        yield FunctionCommand(refuse, [[f"{current_host.name}: {problem}"]], {})
        return
    current_host.noop("no other run may change it now")
