"""What we ask a machine: one fact, many questions, one round trip."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from typing import Any

from pyinfra.api import FactBase, QuoteString, StringCommand
from pyinfra.api.exceptions import PyinfraError
from pyinfra.api.facts import get_fact

from sparkwright import conversation
from sparkwright.paths import script
from sparkwright.resources import Spec, State

# Each may import those before it.
PROGRAMS = ("probe", "one_writer", "talk")
# -I -S: nothing of the user's and no site-packages; both cost time and could change what we import.
# -B: no bytecode is left by who only asks.
PYTHON = ("python3", "-I", "-S", "-B", "-c")
BEGIN = (
    "import json, sys, types\n"
    "for name, text in json.loads(sys.argv[1] if sys.argv[1:] else input()).items():\n"
    "    sys.modules[name] = module = types.ModuleType(name)\n"
    "    exec(text, module.__dict__)\n"
    "module.main(sys.argv[2:])"
)


@functools.cache
def programs() -> str:
    """Their texts, as `talk` wants them: one line."""
    return json.dumps({name: script(f"{name}.py") for name in PROGRAMS})


def talk(*words: str) -> StringCommand:
    """
    The command that answers questions.

    + words: `programs()` and a list of questions; without them both are read from its input, where
      no list of processes and no log of sudo's shows them
    """
    return StringCommand(*PYTHON, *map(QuoteString, (BEGIN, *words)))


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
        return talk(programs(), specs)

    def process(self, output: list[str]) -> list[State]:
        states: list[State] = json.loads("\n".join(output))
        return states


def ask(host: Any, specs: Sequence[Spec]) -> list[State]:
    """
    Ask one machine; the answers come in the order of the questions.

    Raises ConnectionError when it does not answer.
    """

    try:
        states = _said(host, specs) if specs else []
    except PyinfraError:  # "No hosts remaining!": it was the last one, and pyinfra ends the run
        states = None
    if states is None:
        raise ConnectionError("the machine did not answer; see the line above")
    return list(states)


def _said(host: Any, specs: Sequence[Spec]) -> list[State] | None:
    found = converse(host, specs)
    return host.get_fact(Machine, specs=json.dumps(specs)) if found is None else found


def converse(host: Any, specs: Sequence[Spec]) -> list[State] | None:
    """Answers without a command of their own, if they can be had so."""
    return conversation.answers(host, talk(), programs(), specs)


def ask_quietly(state: Any, host: Any, specs: Sequence[Spec]) -> list[State] | None:
    """Answers, or None; a machine without any stays in pyinfra's run."""
    states: list[State] | None = converse(host, specs)
    if states is None:
        options = {"specs": json.dumps(specs)}
        states = get_fact(state, host, Machine, kwargs=options, apply_failed_hosts=False)
    return states
