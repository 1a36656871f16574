"""The SSH transport against a server in this process: when is a machine lost, and what is said."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import paramiko
import pytest

from sparkwright import report
from sparkwright.ssh_transport import LOST_S, transport


class Anybody(paramiko.ServerInterface):
    """Lets everybody in."""

    def get_allowed_auths(self, username: str) -> str:
        return "none"

    def check_auth_none(self, username: str) -> int:
        return paramiko.common.AUTH_SUCCESSFUL


class Link:
    """A client's transport, and the server's end of its connection."""

    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as door:
            self.sock = socket.create_connection(door.getsockname())
            self.far, _ = door.accept()
        self.server = paramiko.Transport(self.far)
        self.server.add_server_key(paramiko.ECDSAKey.generate())
        self.server.start_server(threading.Event(), Anybody())  # with an event it does not wait
        self.client = transport(self.sock)
        self.client.start_client(timeout=30)

    def end(self) -> None:
        self.client.close()
        self.server.close()


@pytest.fixture
def link() -> Iterator[Link]:
    made = Link()
    yield made
    made.end()


@pytest.fixture
def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "findings"
    place.touch()
    monkeypatch.setenv(report.FINDINGS, str(place))
    return place


def test_a_lost_machine_is_named(link: Link, found: Path) -> None:
    link.client.auth_none("somebody")
    link.far.shutdown(socket.SHUT_RDWR)
    link.client.join(30)
    line = json.loads(found.read_text())
    assert (line["kind"], line["host"]) == ("problem", "127.0.0.1")
    assert line["what"] == (
        "127.0.0.1: the SSH connection was lost (the other end closed it); what was begun there "
        "may still go on: run again, which joins it"
    )


@pytest.mark.parametrize("end", ["close", "stop_thread"])
def test_an_end_on_purpose_is_no_loss(link: Link, found: Path, end: str) -> None:
    """pyinfra closes after a run; after --dry it leaves that to the end of the program."""
    link.client.auth_none("somebody")
    getattr(link.client, end)()
    link.client.join(30)
    assert found.read_text() == ""


def test_a_refused_login_is_no_loss(link: Link, found: Path) -> None:
    """pyinfra says that itself."""
    link.far.shutdown(socket.SHUT_RDWR)
    link.client.join(30)
    assert found.read_text() == ""


def test_silence_has_an_end(link: Link) -> None:
    assert link.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        wait = link.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
        assert wait == LOST_S * 1000
