"""What we ask a machine: one fact, many questions, one round trip."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pyinfra.api import FactBase, QuoteString, StringCommand
from pyinfra.api.exceptions import PyinfraError

from sparkwright.paths import script
from sparkwright.resources import Spec, State


class Machine(FactBase[list[State]]):
    """
    Answers of files/opt/sparkwright/lib/probe.py to a list of questions.

    + specs: JSON text of the list of questions
    """

    def command(self, specs: str) -> StringCommand:
        program = QuoteString(script("probe.py"))
        return StringCommand("python3", "-c", program, QuoteString(specs))

    def process(self, output: list[str]) -> list[State]:
        states: list[State] = json.loads("\n".join(output))
        return states


def ask(host: Any, specs: Sequence[Spec]) -> list[State]:
    """
    Ask one machine; the answers come in the order of the questions.

    Raises ConnectionError when it does not answer.
    """

    try:
        states = host.get_fact(Machine, specs=json.dumps(specs)) if specs else []
    except PyinfraError:  # "No hosts remaining!": it was the last one, and pyinfra ends the run
        states = None
    if states is None:
        raise ConnectionError("the machine did not answer; see the line above")
    return list(states)
