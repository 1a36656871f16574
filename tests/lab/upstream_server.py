"""The upstream's process: everything a machine fetches, over plain HTTP, with an access log.

`python -m tests.lab.upstream_server CONFIG.json`; it listens on the bridge's address only.
"""

from __future__ import annotations

import json
import re
import select
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from . import docker_registry, hubapi
from .bodies import CHUNK, index, pieces, static
from .replies import Reply, Rule, Rules, failure, spoil


@dataclass(frozen=True)
class Config:
    """What the lab tells its upstream.

    + folders: URL prefix -> folder that is served below it
    + hub: folders with repositories, the first one wins
    + wheels: those of `folders` that the wheel index lists
    + registries: folders with container images, the first one wins
    + control: secret of the control call, unknown to the machines
    """

    address: str
    port: int
    control: str
    log: str
    folders: dict[str, str]
    hub: list[str]
    wheels: list[str]
    registries: list[str]


class Server(ThreadingHTTPServer):
    """Serves until it is killed."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, config: Config) -> None:
        self.config = config
        self.rules = Rules()
        self._log = Path(config.log).open("a")  # noqa: SIM115 -- open as long as the server
        self._lock = threading.Lock()
        super().__init__((config.address, config.port), Handler)

    def log_line(self, entry: dict[str, object]) -> None:
        """Append one JSON line."""
        with self._lock:
            self._log.write(json.dumps(entry) + "\n")
            self._log.flush()


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, format: str, *args: object) -> None:
        """The access log replaces the one on standard error."""

    def do_GET(self) -> None:
        """Answer, spoil, send, log."""
        self._serve()

    def do_HEAD(self) -> None:
        """The same without the body."""
        self._serve()

    def do_POST(self) -> None:
        """The control call: a JSON list of rules replaces the present ones."""
        length = int(self.headers.get("Content-Length", "0"))
        body = self.rfile.read(length)
        if self.headers.get("X-Lab-Control") == self.server.config.control:
            self.server.rules.replace(json.loads(body))
            self._send(Reply(), None)
        else:
            self._send(failure(404, "no such call"), None)

    def _route(self, path: str, query: dict[str, str]) -> Reply:
        config = self.server.config
        for prefix, folder in config.folders.items():
            if path.startswith(prefix):
                return static(Path(folder), unquote(path.removeprefix(prefix)).lstrip("/"))
        if path.startswith("/simple/"):
            wheels = {prefix: Path(config.folders[prefix]) for prefix in config.wheels}
            return index(wheels, path.removeprefix("/simple/").strip("/"))
        image = docker_registry.answer([Path(folder) for folder in config.registries], path)
        if image:
            return image
        bearer = self.headers.get("Authorization", "").removeprefix("Bearer ").strip()
        folders = [Path(folder) for folder in config.hub]
        found = hubapi.answer(folders, path, query, bearer or None)
        return found or failure(404, f"nothing at {path}")

    def _serve(self) -> None:
        parts = urlsplit(self.path)
        reply = self._route(parts.path, dict(parse_qsl(parts.query)))
        rule = self.server.rules.match(parts.path, self.command)
        started = time.time()
        sent = 0
        status = 0
        try:
            status, sent = self._send(spoil(reply, rule) if rule else reply, rule)
        finally:
            self.server.log_line(
                {
                    "time": round(started, 3),
                    "seconds": round(time.time() - started, 3),
                    "client": self.client_address[0],
                    "method": self.command,
                    "path": parts.path,
                    "query": parts.query,
                    "status": status,
                    "bytes": sent,
                    "range": self.headers.get("Range"),
                    "token": "Authorization" in self.headers,
                }
            )

    def _send(self, reply: Reply, rule: Rule | None) -> tuple[int, int]:
        """Put it on the wire; returns the status and the number of body bytes sent."""
        first, last, status = self._range(reply)
        self.send_response(status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(last - first))
        if status == 206:
            self.send_header("Content-Range", f"bytes {first}-{last - 1}/{reply.size}")
        if status == 416:
            self.send_header("Content-Range", f"bytes */{reply.size}")
        self.end_headers()
        if self.command == "HEAD":
            return status, 0
        return status, self._send_body(reply, first, last, rule)

    def _range(self, reply: Reply) -> tuple[int, int, int]:
        """(first, end, status): the part of the body that is asked for."""
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if not asked or reply.status != 200:
            return 0, reply.size, reply.status
        first = int(asked[1])
        last = min(int(asked[2]) + 1, reply.size) if asked[2] else reply.size
        return (0, 0, 416) if first >= reply.size else (first, last, 206)

    def _send_body(self, reply: Reply, first: int, last: int, rule: Rule | None) -> int:
        sent = 0
        stop = rule.cut_after if rule and rule.cut_after is not None else last - first
        if rule and rule.stall and rule.cut_after is None:
            stop = 0
        with suppress(BrokenPipeError, ConnectionResetError):
            size = max(1024, rule.rate // 10) if rule and rule.rate else CHUNK
            for piece in pieces(reply.body, first, min(last, first + stop), min(size, CHUNK)):
                final = sent + len(piece) == last - first
                if rule and rule.corrupt and final:
                    piece = piece[:-1] + bytes([piece[-1] ^ 0xFF])
                self.wfile.write(piece)
                sent += len(piece)
                if rule and rule.rate:
                    time.sleep(len(piece) / rule.rate)
            if rule and rule.stall:
                self._stall(rule)
        if sent < last - first:
            self.close_connection = True
        return sent

    def _stall(self, rule: Rule) -> None:
        """Say nothing until the rule is cleared or the client has gone."""
        while self.server.rules.active(rule):
            readable, _, _ = select.select([self.connection], [], [], 0.2)
            if readable and not self.connection.recv(1):
                return


def main(argv: list[str]) -> int:
    """Serve until killed."""
    Server(Config(**json.loads(Path(argv[0]).read_text()))).serve_forever()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
