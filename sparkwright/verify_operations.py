"""`pyinfra inventory.py verify.py`: what `sparkwright verify` does, in a run of pyinfra."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyinfra import host as current_host
from pyinfra import logger
from pyinfra.api import FunctionCommand, operation

from sparkwright import cli_verify, per_run, report, verify_text
from sparkwright.operations import Commands, guarded
from sparkwright.per_run import Once
from sparkwright.status_ask import Fleet
from sparkwright.verify_checks import Check

TIMEOUT_S = 900.0  # questions, and 65 GB to hash


@operation()
@guarded
def proved(data: Mapping[str, Any]) -> Commands:
    """
    Fail this machine when a check of it fails, or one that compares it with others.

    + data: the machine's pyinfra data; `verify` says whether every byte is hashed
    """
    # The host's own state: pyinfra's module stands for whichever state is chosen, itself included.
    made = [check for check in checked(current_host.state, data["verify"] == "deep")
            if check.machine in (current_host.name, "all")]  # fmt: skip
    wrong = [check for check in made if not check.ok]
    if not wrong:
        current_host.noop(verify_text.summary(made))
        return
    yield FunctionCommand(tell, [wrong], {})


def checked(state: Any, deep: bool) -> Sequence[Check]:
    """Every check of every machine, made once for a run: nothing changes between its stages.

    Whichever machine comes first asks all at once; the others wait.
    """

    def run() -> Sequence[Check]:
        hosts = sorted(state.inventory.get_active_hosts(), key=lambda host: host.name)
        return cli_verify.run(Fleet.of(state, hosts, TIMEOUT_S), deep)

    return per_run.of(state, _made).get(run)


def _made(state: Any) -> Once[Sequence[Check]]:
    return Once()


def tell(state: Any, host: Any, wrong: Sequence[Check]) -> bool:
    """Say what is wrong, and fail."""
    for check in wrong:
        report.record("problem", host, f"{check.recipe} {check.name}: {check.seen}".strip())
    for line in verify_text.lines(wrong)[:-1]:
        logger.error(f"{host.print_prefix}{line}")
    return False
