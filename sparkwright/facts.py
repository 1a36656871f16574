"""What we ask a machine: one fact, many questions, one round trip."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pyinfra.api import FactBase, QuoteString, StringCommand
from pyinfra.api.exceptions import PyinfraError

from sparkwright.paths import script
from sparkwright.resources import Spec, State


def reads(program: str, *words: str) -> StringCommand:
    """
    The command that runs one of our programs out of its text, over SSH.

    Python keeps no bytecode, neither for it nor for what it starts: the programs that it imports
    lie below /opt/sparkwright, and whoever only looks leaves nothing there.

    + program: file name in files/opt/sparkwright/lib
    """
    argv = [QuoteString(script(program)), *map(QuoteString, words)]
    return StringCommand("env", "PYTHONDONTWRITEBYTECODE=1", "python3", "-c", *argv)


class Machine(FactBase[list[State]]):
    """
    Answers of files/opt/sparkwright/lib/probe.py to a list of questions.

    + specs: JSON text of the list of questions
    """

    def command(self, specs: str) -> StringCommand:
        return reads("probe.py", specs)

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
