"""One conversation with each machine: sudo and Python start once, and a question is a line.

A probe stays on the machine (files/opt/sparkwright/lib/talk.py) and answers as long as this process
asks. Nothing depends on it: who gets no answer here asks by a command of its own (facts.py).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from paramiko import SSHException
from pyinfra.api import StringCommand
from pyinfra.api.arguments import CONNECTOR_ARGUMENT_KEYS, pop_global_arguments
from pyinfra.connectors.ssh import SSHConnector
from pyinfra.connectors.util import extract_control_arguments, make_unix_command_for_host

from sparkwright.resources import Spec, State

KEY = "sparkwright_conversation"  # where pyinfra's host keeps it


class Conversation:
    """A probe that waits on a machine.

    + options: how it was started (sudo and so on)
    + words, first: the command that starts it, and the first line of its input
    """

    def __init__(self, client: Any, options: Mapping[str, Any], words: str, first: str) -> None:
        self.client, self.options = client, options
        self.mute = True  # until it has said something
        self.over = self._busy = False
        try:
            self._in, self._out, _ = client.exec_command(words)
            self._in.write(first + "\n")
        except (SSHException, OSError, EOFError):
            self.over = True

    def ask(self, specs: Sequence[Spec]) -> list[State] | None:
        """Its answers; None when it is busy with another question, or over."""
        if self.over or self._busy:
            return None
        self._busy = True  # and stays so when this greenlet is ended before the answer came
        try:
            self._in.write(json.dumps(specs) + "\n")
            self._in.flush()
            states: list[State] = json.loads(self._out.readline())
        except (SSHException, OSError, EOFError, ValueError):
            self.over = True
            self._in.channel.close()
            return None
        self._busy = self.mute = False
        return states


def answers(
    host: Any, command: StringCommand, first: str, specs: Sequence[Spec]
) -> list[State] | None:
    """
    Answers of the probe that stays on a machine; None when it has none to give.

    + command, first: what starts the probe, and the first line that it wants
    """
    connector = getattr(host, "connector", None)
    if not isinstance(connector, SSHConnector) or connector.client is None:
        return None
    client, options = connector.client, _options(host)
    if options.get("_sudo_password") and KEY not in host.connector_data:
        host.connector_data[KEY] = None
        return None  # pyinfra's own command shows whether it is right, and tries it only once
    found: Conversation | None = host.connector_data.get(KEY)
    if found is None or found.client is not client or found.options != options or found.over:
        if found and found.over and found.mute:  # it never said a word: it will not now
            return None
        words = make_unix_command_for_host(host.state, host, command, **options).get_raw_value()
        found = host.connector_data[KEY] = Conversation(client, options, words, first)
    return found.ask(specs)


def _options(host: Any) -> dict[str, Any]:
    """Arguments by which pyinfra would run a fact's command here and now (pyinfra.api.facts)."""
    # An operation has looked them up already, which costs as much as a question.
    given: Any = host.current_op_global_arguments or pop_global_arguments(host.state, host, {})[0]
    options: Any = {key: given[key] for key in CONNECTOR_ARGUMENT_KEYS if key in given}
    extract_control_arguments(options)
    return dict(options)
