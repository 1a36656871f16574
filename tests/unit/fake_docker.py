"""Stands for docker's engine and command where a test needs none that runs containers.

`Engine` answers the part of the API that docker_api.py speaks, over a Unix socket; the real engine
answers it in tests/e2e/test_container.py. `command` writes a `docker` that prints what it is told.
"""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote


class _Handler(BaseHTTPRequestHandler):
    server: Engine

    def log_message(self, format: str, *args: object) -> None:
        """Silent."""

    def address_string(self) -> str:
        """A Unix socket has no address."""
        return "socket"

    def do_GET(self) -> None:
        if self.path == "/info":
            self._send(
                200, [{"DockerRootDir": self.server.root, "DriverStatus": self.server.status}]
            )
            return
        if self.path.endswith("/get"):
            self._export(unquote(self.path.removeprefix("/images/").removesuffix("/get")))
            return
        name = unquote(self.path.removeprefix("/images/").removesuffix("/json"))
        found = self.server.images.get(name)
        if found is None:
            self._send(404, [{"message": f"No such image: {name}"}])
        else:
            self._send(200, [found])

    def do_POST(self) -> None:
        path, _, query = self.path.partition("?")
        body = self._body()
        self.server.bodies.append(body)
        self.server.calls.append((path, parse_qs(query), dict(self.headers), len(body)))
        if self.server.refusal:
            self._send(500, [{"message": self.server.refusal}])
            return
        self.server.images.update(self.server.arrives)
        self._send(200, self.server.events)
        if self.server.stalls:
            self.server.released.wait(10)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", "0")))
        found = b""
        while size := int(self.rfile.readline(), 16):
            found += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return found

    def _export(self, name: str) -> None:
        data = self.server.exports.get(name)
        if data is None:
            self._send(404, [{"message": f"No such image: {name}"}])
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _send(self, status: int, lines: list[Any]) -> None:
        body = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        self.send_response(status)
        if not (self.server.stalls and status == 200 and self.command == "POST"):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()


class Engine(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """A fake engine.

    + images: name or id -> what it says of one; arrives: what a pull or load adds
    + events: lines of the answer to a pull or load; refusal: answered with status 500 instead
    + stalls: say nothing more after the events
    + exports: id -> the tar that `docker save` gives; bodies: what was sent here, call by call
    + root: docker's directory; status: of its storage driver
    """

    daemon_threads = True

    def __init__(self, path: Path) -> None:
        super().__init__(str(path), _Handler)
        self.images: dict[str, Any] = {}
        self.arrives: dict[str, Any] = {}
        self.events: list[Any] = []
        self.refusal = ""
        self.stalls = False
        self.exports: dict[str, bytes] = {}
        self.bodies: list[bytes] = []
        self.root = str(path.parent)
        self.status = [["Backing Filesystem", "extfs"]]
        self.released = threading.Event()
        self.calls: list[tuple[str, dict[str, list[str]], dict[str, str], int]] = []


@contextmanager
def engine(path: Path) -> Iterator[Engine]:
    """An engine that answers at a socket."""
    with Engine(path) as found:
        threading.Thread(target=found.serve_forever, daemon=True).start()
        yield found
        found.released.set()
        found.shutdown()


def command(folder: Path, script: str) -> Path:
    """Write a `docker` into a folder, for PATH; it logs its words to `calls` beside itself."""
    folder.mkdir(exist_ok=True)
    place = folder / "docker"
    place.write_text(f'#!/bin/sh\necho "$@" >>"{folder}/calls"\n{script}\n')
    place.chmod(0o755)
    return folder / "calls"
