"""The laptop's side of a conversation, with a machine that is a list of lines."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from paramiko import SSHException
from pyinfra.api import StringCommand

from sparkwright import conversation
from sparkwright.conversation import answers

COMMAND, FIRST = StringCommand("probe"), '{"probe": "its text"}'


class Client:
    """What a SSH client gives for a command: its input, and lines that are its output."""

    def __init__(self, *lines: str) -> None:
        self.lines, self.asked, self.started = list(lines), [], []  # type: ignore[var-annotated]
        self.closed = 0

    def exec_command(self, words: str) -> tuple[Any, Any, None]:
        """A new command; all of them share the lines."""
        self.started.append(words)
        channel = SimpleNamespace(close=self._close)
        sink = SimpleNamespace(write=self.asked.append, flush=lambda: None, channel=channel)
        return sink, SimpleNamespace(readline=self._readline), None

    def _close(self) -> None:
        self.closed += 1

    def _readline(self) -> str:
        line = self.lines.pop(0) if self.lines else ""
        if line == "lost":
            raise SSHException(line)
        return line


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A host with a client; how it becomes root is not looked at."""
    made = SimpleNamespace(
        connector=SimpleNamespace(client=Client()),
        connector_data={},
        sudo=True,
        state=None,
        password="",
    )
    monkeypatch.setattr(conversation, "SSHConnector", SimpleNamespace)
    monkeypatch.setattr(
        conversation, "_options", lambda host: {"_sudo": host.sudo, "_sudo_password": host.password}
    )
    monkeypatch.setattr(conversation, "make_unix_command_for_host",
                        lambda state, host, command, **options: command)  # fmt: skip
    return made


def ask(host: Any, *lines: str) -> Any:
    host.connector.client.lines += lines
    return answers(host, COMMAND, FIRST, [{"kind": "host"}])


def test_one_start_serves_many_questions(host: Any) -> None:
    assert [ask(host, "[1]\n"), ask(host, "[2]\n")] == [[1], [2]]
    client = host.connector.client
    assert client.started == ["probe"]
    assert client.asked[0] == FIRST + "\n"
    assert [json.loads(text) for text in client.asked[1:]] == [[{"kind": "host"}]] * 2


@pytest.mark.parametrize("line", ["", "Welcome!\n", "lost"])
def test_what_is_no_answer_is_none_and_the_next_question_starts_another(
    line: str, host: Any
) -> None:
    assert ask(host, "[1]\n") == [1]
    assert ask(host, line) is None
    assert host.connector.client.closed == 1
    assert ask(host, "[2]\n") == [2]
    assert len(host.connector.client.started) == 2


def test_who_never_said_a_word_is_not_tried_again(host: Any) -> None:
    assert ask(host, "") is None
    assert ask(host, "[1]\n") is None
    assert len(host.connector.client.started) == 1


def test_a_second_question_at_the_same_time_is_not_mixed_with_the_first(
    host: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner: list[Any] = []

    def readline(self: Client) -> str:
        inner.append(answers(host, COMMAND, FIRST, []))
        return "[1]\n"

    monkeypatch.setattr(Client, "_readline", readline)
    assert ask(host) == [1]
    assert inner == [None]


def test_another_way_to_root_and_another_connection_have_their_own(host: Any) -> None:
    ask(host, "[1]\n")
    host.sudo = False
    assert ask(host, "[2]\n") == [2]
    assert len(host.connector.client.started) == 2
    host.connector.client = Client("[3]\n")
    assert ask(host) == [3]
    assert len(host.connector.client.started) == 1


def test_a_password_is_proved_by_a_command_first(host: Any) -> None:
    """Three wrong tries may lock an account; six would for sure."""
    host.password = "secret"
    assert ask(host, "[1]\n") is None
    assert host.connector.client.started == []
    assert ask(host) == [1]


def test_a_refused_channel_is_no_answer(host: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Client, words: str) -> None:
        raise SSHException("Session open refused")

    monkeypatch.setattr(Client, "exec_command", refuse)
    assert ask(host) is None


def test_other_connectors_are_asked_by_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    host = SimpleNamespace(connector=SimpleNamespace(client=Client("[1]\n")), connector_data={})
    assert answers(host, COMMAND, FIRST, []) is None
