"""A port of this computer that leads to one of a machine, through the SSH session that is open.

The session is pyinfra's own, so whatever reaches the machine (keys, jump hosts, sudo passwords)
is not asked for twice. Its cost is this computer's encryption in Python: some hundred microseconds
for each token, far below what a model needs for one. `--from` another machine has none of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from sparkwright.errors import SparkwrightError

CHUNK = 2**15


@contextmanager
def tunnel(host: Any, address: str, port: int) -> Iterator[int]:
    """
    The port on 127.0.0.1 while the block runs.

    + host: pyinfra's host, connected
    + address, port: as the machine itself reaches the server

    Raises SparkwrightError when the session is gone.
    """
    import gevent.server

    session = host.connector.client.get_transport() if host.connector.client else None
    if session is None or not session.is_active():
        raise SparkwrightError(f"{host.name}: the SSH session is gone; run it again")

    def forward(here: Any, peer: Any) -> None:
        _forward(session, here, peer, (address, port))

    server = gevent.server.StreamServer(("127.0.0.1", 0), forward)
    server.start()
    try:
        yield server.server_port or 0
    finally:
        server.stop(timeout=1)


def _forward(session: Any, here: Any, peer: Any, far: tuple[str, int]) -> None:
    """Both directions of one connection; a refusal at the far end closes this one."""
    import gevent
    import paramiko

    here.setsockopt(6, 1, 1)  # IPPROTO_TCP, TCP_NODELAY: a token is sent when it comes
    try:
        there = session.open_channel("direct-tcpip", far, peer)
    except paramiko.SSHException:
        here.close()
        return
    ways = [gevent.spawn(_pump, here, there), gevent.spawn(_pump, there, here)]
    gevent.joinall(ways, count=1)
    # Either side is done: an engine closes after its answer, a client when it has read it.
    for end in (there, here):
        end.close()
    gevent.killall(ways)


def _pump(source: Any, target: Any) -> None:
    with suppress(OSError, EOFError):  # closed by the other direction
        while data := source.recv(CHUNK):
            target.sendall(data)
