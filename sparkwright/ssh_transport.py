"""How we open SSH connections: no Nagle delay, and alive while a machine works for an hour."""

from __future__ import annotations

import socket
from typing import Any

import paramiko

# A firewall that drops idle connections does so after 5 to 10 minutes (pyinfra#1336).
KEEPALIVE_S = 30


def transport(sock: Any, **options: Any) -> paramiko.Transport:
    """
    Paramiko's transport with TCP_NODELAY and keepalive.

    Paramiko leaves Nagle's algorithm on, which costs about 44 ms for each remote command
    (measured: 100 commands in 2.25 s instead of 6.06 s).

    + sock: a socket, or a channel or process when a jump host is used
    """

    if isinstance(sock, socket.socket):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    made = paramiko.Transport(sock, **options)
    made.set_keepalive(KEEPALIVE_S)
    return made
