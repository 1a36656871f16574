"""How we open SSH connections: no Nagle delay, and alive while a machine works for an hour."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from typing import Any

import paramiko

# A firewall that drops idle connections does so after 5 to 10 minutes (pyinfra#1336).
KEEPALIVE_S = 30
# A machine that answers nothing for this long is lost. Linux would go on for about 15 minutes
# (tcp(7), tcp_retries2), and a second run joins what goes on there anyway (our choice).
LOST_S = 30


def transport(sock: Any, **options: Any) -> paramiko.Transport:
    """
    Paramiko's transport with TCP_NODELAY and keepalive.

    Paramiko leaves Nagle's algorithm on, which costs about 44 ms for each remote command
    (measured: 100 commands in 2.25 s instead of 6.06 s).

    + sock: a socket, or a channel or process when a jump host is used
    """

    if isinstance(sock, socket.socket):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux; macOS gives up after a few minutes
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, LOST_S * 1000)
    kind = JumpTransport if isinstance(sock, paramiko.ProxyCommand) else LossTransport
    made = kind(sock, **options)
    made.set_keepalive(KEEPALIVE_S)
    return made


class LossTransport(paramiko.Transport):
    """A transport that says when the machine is lost.

    pyinfra 3.10.0 shows such a command as one that failed and wrote nothing.
    """

    _ending = False

    def __init__(self, sock: Any, **options: Any) -> None:
        self._peer = "the machine"
        if isinstance(sock, socket.socket):
            self._peer = str(sock.getpeername()[0])
        super().__init__(sock, **options)

    def stop_thread(self) -> None:
        """End the session on purpose; paramiko itself does that as the program ends."""
        self._ending = True
        super().stop_thread()

    def run(self) -> None:
        """Carry the session until it ends."""
        super().run()
        if not self._ending and self.auth_handler and self.auth_handler.is_authenticated():
            from sparkwright import report  # only now: it needs pyinfra, which the laptop's
            # command line does not load for its own sake

            report.problem(
                self._peer,
                f"{self._peer}: the SSH connection was lost ({self._why()}); what was begun there "
                "may still go on: run again, which joins it",
            )

    def _why(self) -> str:
        error = getattr(self, "saved_exception", None)
        return "the other end closed it" if isinstance(error, EOFError) else str(error)


class JumpTransport(LossTransport):
    """A transport through a command, whose own words tell why there is no session.

    Paramiko 4.0.0 does not see that the command has ended: it waits for the timeout, says "No
    existing session", drops what ssh wrote ("Host key verification failed."), and stumbles over
    the process that has gone.
    """

    def start_client(self, event: Any = None, timeout: float | None = None) -> None:
        """Begin the session. Raises SSHException with the last line that the command wrote."""
        process = self._process()
        done = event or threading.Event()
        super().start_client(done)
        ends = time.monotonic() + timeout if timeout else None
        while not done.wait(0.1):
            if process.poll() is not None or (ends and time.monotonic() > ends):
                break
        if not (self.is_active() and done.is_set()):
            raise paramiko.SSHException(f"jump host: {self._words(process)}") from (
                self.get_exception()
            )

    def _process(self) -> Any:
        sock: Any = self.sock
        return sock.process

    def _words(self, process: Any) -> str:
        if process.poll() is None:
            return "no SSH session through it in time"
        lines = process.stderr.read().decode(errors="replace").strip().splitlines()
        return lines[-1].strip() if lines else f"ssh ended with {process.returncode}"

    def stop_thread(self) -> None:
        """End the session; a command that has ended already is what is wanted."""
        with contextlib.suppress(ProcessLookupError):
            super().stop_thread()
