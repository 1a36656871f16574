"""Gives files to other machines of the fleet, over plain HTTP with a token, and ends by itself.

    spread_serve.py DIR PORT ADDRESS...     DIR: see spread_item.py; one ADDRESS at least is ours

    GET /<key>/have?known=N&wait=S    {"have": [numbers], "whole": bool}; waits up to S seconds
                                      while exactly N packs are here
    GET /<key>/pack/<number>          a pack's bytes; Range: bytes=N- goes on from there
    GET /<key>/manifest               the item's text for receivers

Runs as the service account. Content is no secret here (who receives checks every hash), the token
only keeps strangers from using the disk and the line. One stream of a pack at a time: the next
machine that wants it gets it sooner from the one that has just received it.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import re
import signal
import socket
import socketserver
import sys
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO

from spread_behind import Sent
from spread_item import Item, Shared, drop

# Bytes of one sendfile(2) (our choice).
PIECE = 8 << 20
PATH = re.compile(r"/([0-9a-z-]+)/(have|manifest|pack/(\d+))")


class Server(ThreadingHTTPServer):
    """One listening address."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], shared: Shared) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.shared = shared
        super().__init__(address, Handler)

    def server_bind(self) -> None:
        """Without the name of the machine, for which http.server would ask a DNS server."""
        socketserver.TCPServer.server_bind(self)

    def handle_error(self, request: object, client_address: object) -> None:
        """A receiver that has all it wants goes away in the middle of an answer: no news."""
        if not isinstance(sys.exc_info()[1], ConnectionError | TimeoutError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]  # passed on


class Handler(BaseHTTPRequestHandler):
    """One connection; it stays open for the next question."""

    protocol_version = "HTTP/1.1"
    timeout = 60
    server: Server

    def do_GET(self) -> None:
        """Answer one question."""
        shared = self.server.shared
        shared.asked = time.monotonic()
        path, _, query = self.path.partition("?")
        match = PATH.fullmatch(path)
        item = shared.items.get(match[1]) if match else None
        if match is None or item is None:
            return self._refuse(404)
        given = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        if not hmac.compare_digest(given.encode(), item.token.encode()):
            return self._refuse(401)
        if match[2] == "have":
            return self._have(item, dict(urllib.parse.parse_qsl(query)))
        if match[2] == "manifest":
            return self._manifest(item)
        return self._pack(item, int(match[3]))

    def _refuse(self, status: int) -> None:
        self._text(b"", status)

    def _text(self, text: bytes, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def _have(self, item: Item, query: dict[str, str]) -> None:
        until = time.monotonic() + min(float(query.get("wait", 0)), 20.0)
        have = item.have()
        while str(len(have)) == query.get("known") and time.monotonic() < until:
            time.sleep(0.1)
            have = item.have()
        whole = bool(item.packs) and len(have) == len(item.packs)
        self._text(json.dumps({"have": have, "whole": whole}).encode())

    def _manifest(self, item: Item) -> None:
        try:
            text = item.manifest.read_bytes() if item.manifest else None
        except OSError:
            text = None
        return self._refuse(404) if text is None else self._text(text)

    def _pack(self, item: Item, number: int) -> None:
        if number not in item.have():
            return self._refuse(404)
        with item.lock:
            if number in item.sending:
                return self._refuse(503)
            item.sending.add(number)
        try:
            if not self.server.shared.streams.acquire(blocking=False):
                return self._refuse(503)
            try:
                return self._send(item, number)
            finally:
                self.server.shared.streams.release()
        finally:
            with item.lock:
                item.sending.discard(number)

    def _send(self, item: Item, number: int) -> None:
        pack = item.packs[number]
        whole = sum(size for _, size in pack)
        begin = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or "bytes=0-")
        first = int(begin[1]) if begin else 0
        with contextlib.ExitStack() as stack:
            try:
                opened = [stack.enter_context(self._open(item, p, s)) for p, s in pack]
            except OSError:
                item.forget(number)
                self._refuse(404)
                return
            self.send_response(206 if first else 200)
            self.send_header("Content-Length", str(max(whole - first, 0)))
            self.end_headers()
            for file, (_, size) in zip(opened, pack, strict=True):
                self._stream(file, min(first, size), size)
                first = max(first - size, 0)

    def _open(self, item: Item, path: str, size: int) -> IO[bytes]:
        place = item.find(path, size)
        if place is None:
            raise FileNotFoundError(path)
        return place.open("rb", buffering=0)

    def _stream(self, file: IO[bytes], at: int, end: int) -> None:
        sent = Sent(file.fileno(), at)
        while at < end:
            moved = self.connection.sendfile(file, at, min(PIECE, end - at))
            if not moved:
                raise ConnectionError("the file became shorter")
            at += moved
            sent.upto(at, at == end)
            self.server.shared.asked = time.monotonic()

    def log_message(self, format: str, *args: object) -> None:
        """No line a request: the journal is for people."""


def listen(addresses: list[str], port: int, shared: Shared) -> list[Server]:
    """A server on each address that is this machine's."""
    found = []
    for address in addresses:
        try:
            found.append(Server((address, port), shared))
        except OSError as error:
            print(f"spread: {address}:{port}: {error.strerror}", flush=True)
    return found


def main(argv: list[str]) -> int:
    """Serve until told to stop, or until nobody has asked for a while."""
    folder, port = Path(argv[0]), int(argv[1])
    shared = Shared(folder)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: shared.ended.set())
    servers = listen(argv[2:], port, shared)
    if not servers:
        return 1
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    while not shared.ended.wait(1.0) and not shared.idle():
        pass
    drop(shared.items)
    for place in folder.iterdir():
        place.unlink(missing_ok=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
