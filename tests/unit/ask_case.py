"""ask.py in this process, against a small server on loopback that answers as told."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.unit.machine_case import program

HTTP = program("ask_http")
JOURNAL = program("ask_journal")
JUDGE = program("ask_judge")
ROLE = program("ask_role")
ASK = program("ask")  # it imports its siblings by those names
LOG = "build: 11312\nmain: model loaded\nsrv: listening\n"


def chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


GOOD = [
    chunk(role="assistant", content=None),
    chunk(reasoning_content="The user "),
    chunk(reasoning_content="asks."),
    chunk(content="I am SP"),
    chunk(content="ARK."),
    chunk("stop"),
    {"choices": [], "usage": {"completion_tokens": 5}},
]


class FakeServer(http.server.ThreadingHTTPServer):
    """A server of the OpenAI API that streams given objects; notes what it was asked.

    + stream: of the first question; later: of those after it, else the first again
    + objects: path -> JSON that a POST there answers; pages: path -> text of a GET
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.stream: list[Any] = list(GOOD)
        self.later: list[list[Any]] = []
        self.objects: dict[str, Any] = {}
        self.pages: dict[str, str] = {}
        self.status = 200
        self.cut = False
        self.asked: list[tuple[str, dict[str, Any], str | None]] = []

    def next_stream(self) -> list[Any]:
        chats = sum(path == "/v1/chat/completions" for path, _, _ in self.asked)
        return self.later[chats - 2] if 0 <= chats - 2 < len(self.later) else self.stream


class Handler(http.server.BaseHTTPRequestHandler):
    server: FakeServer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((self.path, body, self.headers["Authorization"]))
        if self.server.status != 200:
            self.send_response(self.server.status)
            self.end_headers()
            self.wfile.write(b'{"error": "loading model"}')
        elif self.path != "/v1/chat/completions":
            self.whole(json.dumps(self.server.objects.get(self.path)), self.server.objects)
        else:
            self.flow()

    def do_GET(self) -> None:
        self.whole(self.server.pages.get(self.path, ""), self.server.pages)

    def whole(self, text: str, known: Any) -> None:
        self.send_response(200 if self.path in known else 404)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def flow(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        if self.server.cut:
            self.send_header("Content-Length", "100000")
        self.end_headers()
        for item in self.server.next_stream():
            text = item if isinstance(item, str) else f"data: {json.dumps(item)}"
            self.wfile.write(f"{text}\n\n".encode())
        if not self.server.cut:
            self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, *_: Any) -> None:
        """Be quiet."""


@contextmanager
def running() -> Iterator[FakeServer]:
    """The server, answering in a thread."""
    with FakeServer() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


class Bench:
    """The program in this process; journal and systemd are answered by the test."""

    def __init__(
        self,
        root: Path,
        server: FakeServer,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        self.root, self.capsys, self.log = root, capsys, LOG
        monkeypatch.setattr(ASK, "journal", lambda spec: self.log)
        monkeypatch.setattr(ASK, "ready_s", lambda unit: 12.5)
        self.kernel: list[str] = []
        monkeypatch.setattr(ASK, "driver_errors", lambda spec: self.kernel)
        self.spec: dict[str, Any] = {
            "unit": "llm-tiny.service",
            "invocation": "cafe",
            "url": f"http://127.0.0.1:{server.server_address[1]}",
            "model": "tiny",
            "question": "What are you?",
            "max_tokens": 64,
            "expect": "SPARK",
            "finish_reason": "stop",
            "log_must": ["model loaded"],
            "log_must_not": ["error loading"],
            "key_file": None,
            "timeout_s": 30,
            "asked": "0123456789ab",
            "serves": "llama.cpp",
            "health": "/health",
            "system": None,
            "system_expect": None,
            "long_question": None,
            "notes": [],
            "record": f"{root}/accepted/llm-tiny.json",
        }

    @property
    def record(self) -> Path:
        return Path(self.spec["record"])

    def ask(self, **changes: Any) -> tuple[int, dict[str, Any]]:
        self.spec |= changes
        (self.root / "spec.json").write_text(json.dumps(self.spec))
        status = ASK.main([f"{self.root}/spec.json"])
        return status, json.loads(self.capsys.readouterr().out)


def causes(found: dict[str, Any]) -> list[str]:
    """What is wrong, without the likely causes (which must be there)."""
    parts = [text.partition("; likely cause: ") for text in found["wrong"]]
    assert all("; see " in cause for _, _, cause in parts)
    return [what for what, _, _ in parts]
