"""A stand-in for an OpenAI-compatible engine: streams as many tokens as it is asked for.

It replaces an engine that computes where only the client's side is tested: `Fake(...)` serves on a
free port of 127.0.0.1 until the block ends.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Fake:
    """How it behaves, and what it was asked.

    + pages: GET path -> text; others are 404
    + key: wanted in the header; strict: a body with ignore_eos is refused with 400
    + burst: tokens that come in one line; broken: every answer after the first is a 500
    """

    pages: dict[str, str] = field(default_factory=dict)
    key: str = ""
    strict: bool = False
    burst: int = 1
    broken: bool = False
    pause_s: float = 0.001
    asked: list[dict[str, Any]] = field(default_factory=list)
    port: int = 0

    @contextmanager
    def serve(self) -> Iterator[Fake]:
        """Serve while the block runs."""
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler(self))
        self.port = server.server_port
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            server.shutdown()
            thread.join()
            server.server_close()


def handler(fake: Fake) -> type[BaseHTTPRequestHandler]:
    """The class of its answers."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing: the test reads `asked`."""

        def do_GET(self) -> None:
            self._plain(200 if self.path in fake.pages else 404, fake.pages.get(self.path, ""))

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            fake.asked.append({"path": self.path, **body})
            if fake.key and self.headers.get("Authorization") != f"Bearer {fake.key}":
                self._plain(401, "no such key")
            elif fake.strict and "ignore_eos" in body:
                self._plain(400, "unknown field ignore_eos")
            elif fake.broken and len(fake.asked) > 1:
                self._plain(500, "the engine is dead")
            else:
                self._stream(body["max_tokens"], "chat" in self.path)

        def _plain(self, status: int, text: str) -> None:
            data = text.encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def _stream(self, tokens: int, chat: bool) -> None:
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            if chat:
                self._event({"choices": [{"delta": {"role": "assistant"}}]})
            for number in range(0, tokens, fake.burst):
                time.sleep(fake.pause_s)
                text = "x" * min(fake.burst, tokens - number)
                said = {"delta": {"content": text}} if chat else {"text": text}
                self._event({"choices": [said]})
            end: dict[str, Any] = {"delta": {}} if chat else {"text": ""}
            self._event({"choices": [{"finish_reason": "length", **end}]})
            self._event({"choices": [], "usage": {"completion_tokens": tokens}})
            self._chunk(b"data: [DONE]\n\n")
            self.wfile.write(b"0\r\n\r\n")

        def _event(self, said: dict[str, Any]) -> None:
            self._chunk(b"data: " + json.dumps(said).encode() + b"\n\n")

        def _chunk(self, data: bytes) -> None:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            self.wfile.flush()

    return Handler
