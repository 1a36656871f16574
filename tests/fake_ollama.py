"""A stand-in for Ollama: holds no model, records what it is asked. Standard library only.

Run as a script on a machine: `python3 fake_ollama.py PORT RECORD MODEL…`.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class FakeOllama:
    """Answers /api/ps and /api/generate as Ollama does; `asked` lists the requests' bodies."""

    def __init__(self, models: Sequence[str], *, port: int = 0, delay_s: float = 0.0) -> None:
        self.loaded = list(models)
        self.asked: list[dict[str, object]] = []
        self.record: Path | None = None
        self.delay_s = delay_s
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                time.sleep(fake.delay_s)
                models = [{"name": name, "size": 13 * 2**30} for name in fake.loaded]
                self.answer({"models": models} if self.path == "/api/ps" else {"error": self.path})

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                fake.note({"path": self.path, **body})
                if body.get("keep_alive") == 0 and body.get("model") in fake.loaded:
                    fake.loaded.remove(body["model"])
                self.answer({"model": body.get("model"), "done": True, "done_reason": "unload"})

            def answer(self, reply: dict[str, object]) -> None:
                data = json.dumps(reply).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: object) -> None:
                """Quiet: what was asked is recorded by note()."""

        self.server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def note(self, request: dict[str, object]) -> None:
        """Keep a request, in the record file too when there is one."""
        self.asked.append(request)
        if self.record:
            with self.record.open("a") as out:
                out.write(json.dumps(request) + "\n")

    def __enter__(self) -> FakeOllama:
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()


if __name__ == "__main__":
    served = FakeOllama(sys.argv[3:], port=int(sys.argv[1]))
    served.record = Path(sys.argv[2])
    served.server.serve_forever()
