"""A small Hugging Face Hub on loopback for the tests of the weights agent.

It stands in for huggingface.co: model info, tree, and file downloads with Range. It offers no
xet (no X-Xet headers), so the real huggingface_hub transfers over plain HTTP here. Faults are
switched on per test; every request is recorded.
"""

from __future__ import annotations

import hashlib
import http.server
import json
import re
import threading
import time
import urllib.parse
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

COMMIT = "0123456789abcdef0123456789abcdef01234567"
# From this size on files are announced as LFS; the real Hub uses the repository's attributes.
LFS_FROM = 1024


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def git_sha1(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


@dataclass
class Faults:
    """What goes wrong: `cut` and `stall` map a path to how often it still happens.

    `trickle`: the answer waits until the path is taken out; `short`: half a file as if whole.
    """

    cut: dict[str, int] = field(default_factory=dict)
    stall: dict[str, int] = field(default_factory=dict)
    trickle: set[str] = field(default_factory=set)
    short: set[str] = field(default_factory=set)
    deny: tuple[int, str] | None = None
    deny_files: tuple[int, str] | None = None
    token: str | None = None


class FakeHub:
    """Serves one repository; use as a context manager."""

    def __init__(self, repo: str, files: dict[str, bytes]) -> None:
        self.repo = repo
        self.files = files
        self.served: dict[str, bytes] = {}
        self.faults = Faults()
        self.requests: list[tuple[str, str, str]] = []
        hub = self

        class Handler(_Handler):
            def setup(self) -> None:
                self.hub = hub
                super().setup()

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def asked(self, path: str, method: str = "GET") -> int:
        """How often a file's content was asked for."""
        end = f"/resolve/{COMMIT}/{path}"
        return sum(1 for verb, url, _ in self.requests if verb == method and url.endswith(end))

    def entries(self) -> list[dict[str, Any]]:
        """The listing as the tree API gives it."""
        return [_entry(path, content) for path, content in sorted(self.files.items())]

    def __enter__(self) -> FakeHub:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


def _entry(path: str, content: bytes) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "type": "file",
        "path": path,
        "size": len(content),
        "oid": git_sha1(content),
    }
    if len(content) >= LFS_FROM:
        entry["lfs"] = {"oid": sha256(content), "size": len(content), "pointerSize": 134}
    return entry


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: FakeHub

    def log_message(self, format: str, *args: Any) -> None:
        """Not printed."""

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, body: bool) -> None:
        path = urllib.parse.unquote(self.path.split("?")[0])
        self.hub.requests.append((self.command, path, self.headers.get("Range", "")))
        faults = self.hub.faults
        given = self.headers.get("Authorization", "")
        if faults.token is not None and given != f"Bearer {faults.token}":
            self._refuse(401, "RepoNotFound")
        elif faults.deny is not None:
            self._refuse(*faults.deny)
        elif re.match(rf"/api/models/{self.hub.repo}(/revision/[^/]+)?$", path):
            tags = ["license:apache-2.0"]
            self._json({"id": self.hub.repo, "sha": COMMIT, "siblings": [], "tags": tags})
        elif path.startswith(f"/api/models/{self.hub.repo}/tree/"):
            self._json(self.hub.entries())
        elif path.startswith(f"/{self.hub.repo}/resolve/{COMMIT}/"):
            name = path.removeprefix(f"/{self.hub.repo}/resolve/{COMMIT}/")
            self._file(name, body)
        else:
            self._refuse(404, "RepoNotFound")

    def _refuse(self, status: int, code: str) -> None:
        self._json({"error": code}, status, {"X-Error-Code": code})

    def _json(self, value: Any, status: int = 200, extra: dict[str, str] | None = None) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for key, text in (extra or {}).items():
            self.send_header(key, text)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _file(self, name: str, body: bool) -> None:
        content = self.hub.files.get(name)
        if content is None:
            self._refuse(404, "EntryNotFound")
            return
        if self.hub.faults.deny_files is not None:
            self._refuse(*self.hub.faults.deny_files)
            return
        start = 0
        if body and (found := re.match(r"bytes=(\d+)-", self.headers.get("Range", ""))):
            start = int(found[1])
        etag = sha256(content) if len(content) >= LFS_FROM else git_sha1(content)
        self.send_response(206 if start else 200)
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("ETag", f'"{etag}"')
        if len(content) >= LFS_FROM:
            self.send_header("X-Linked-Size", str(len(content)))
            self.send_header("X-Linked-Etag", f'"{etag}"')
        data = self.hub.served.get(name, content)[start:]
        if body and name in self.hub.faults.short:
            data = data[: len(data) // 2]
        self.send_header("Content-Length", str(len(data)))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.end_headers()
        if body:
            self._send(name, data)

    def _send(self, name: str, content: bytes) -> None:
        faults = self.hub.faults
        half = len(content) // 2
        if faults.cut.get(name, 0) > 0:
            faults.cut[name] -= 1
            self.wfile.write(content[:half])
            self.wfile.flush()
            self.close_connection = True
        elif faults.stall.get(name, 0) > 0:
            faults.stall[name] -= 1
            self.wfile.write(content[:half])
            self.wfile.flush()
            time.sleep(60)
        elif name in faults.trickle:
            while name in faults.trickle:
                time.sleep(0.05)
            self.wfile.write(content)
        else:
            self.wfile.write(content)
