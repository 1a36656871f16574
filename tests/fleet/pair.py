"""A model that two lab machines serve together, as the tests of such pairs look at it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from tests.e2e import support
from tests.lab.host import LabError
from tests.lab.machine import Machine


@dataclass(frozen=True)
class Pair:
    """What a recipe's parts are called and how long they may take to come back.

    + patience_s: for a boot, silence until a member counts as gone, and a load
    """

    recipe: str
    port: int
    served_name: str
    patience_s: int

    @property
    def unit(self) -> str:
        """The model's unit, on both machines."""
        return f"llm-{self.recipe}.service"

    def show(self, machine: Machine, *keys: str) -> list[str]:
        """Properties of the unit, in the order of their names here."""
        words = " ".join(f"-p {key}" for key in keys)
        out = machine.ssh(f"systemctl show {words} {self.unit}").stdout
        found = dict(line.split("=", 1) for line in out.splitlines())
        return [found[key] for key in keys]

    def started(self, machine: Machine) -> int:
        """Monotonic microseconds of the start; all machines have one kernel and so one clock."""
        return int(self.show(machine, "ExecMainStartTimestampMonotonic")[0])

    def answer(self, head: Machine) -> str:
        """What the model says to a plain question."""
        return support.ask(head, self.port, self.served_name)

    def until_answers(self, machines: Sequence[Machine], old: str) -> str:
        """Wait for a head that was started after `old` (an invocation); what it answers.

        **Raises**: `LabError` with both machines' journals when it does not come back.
        """
        head, end = machines[0], time.monotonic() + self.patience_s
        while time.monotonic() < end:
            active, now = self.show(head, "ActiveState", "InvocationID")
            if active == "active" and now != old:
                return self.answer(head)
            time.sleep(1)
        said = f"{self.recipe}: the pair did not come back in {self.patience_s} s"
        raise LabError("\n".join([said, *map(self.journal, machines)]))

    def journal(self, machine: Machine) -> str:
        """The last lines of the recipe's units on a machine."""
        names = f"'{self.unit.removesuffix('.service')}*'"
        log = machine.ssh(f"sudo journalctl -o cat -n 60 -u {names}").stdout
        return f"--- {machine.name}\n{log}"
