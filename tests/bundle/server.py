"""Everything upstream on one loopback port: files, a package index, a Hub, a registry, faults."""

from __future__ import annotations

import hashlib
import http.server
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote, unquote

PAGE = b"<!DOCTYPE html><html><body>Please log in</body></html>"


@dataclass
class Faults:
    """What goes wrong, by path.

    + cut: how often the connection still ends after half of the body
    + page: answered with a login page; status: answered with another status
    + wrong: the last byte is another one; hold: waits until the path is taken out
    """

    cut: dict[str, int] = field(default_factory=dict)
    page: set[str] = field(default_factory=set)
    status: dict[str, int] = field(default_factory=dict)
    wrong: set[str] = field(default_factory=set)
    hold: set[str] = field(default_factory=set)


class Server:
    """Serves `files` (path -> bytes); use as a context manager."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.kinds: dict[str, str] = {}
        self.faults = Faults()
        self.requests: list[tuple[str, str | None]] = []
        self.tokens: list[str] = []
        server = self

        class Handler(_Handler):
            upstream = server

        self._http = _Quiet(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True

    @property
    def host(self) -> str:
        """host:port"""
        return f"127.0.0.1:{self._http.server_address[1]}"

    @property
    def url(self) -> str:
        return f"http://{self.host}"

    def asked(self, path: str) -> int:
        """How often a path was asked for."""
        return sum(1 for asked, _ in self.requests if asked == path)

    def put_wheels(self, *paths: Path) -> None:
        """Wheels and their pages in the index at /simple/."""
        projects: dict[str, list[str]] = {}
        for path in paths:
            data = path.read_bytes()
            self.files[f"/wheels/{path.name}"] = data
            link = f"/wheels/{quote(path.name)}#sha256={hashlib.sha256(data).hexdigest()}"
            name = path.name.split("-")[0].replace("_", "-").lower()
            projects.setdefault(name, []).append(f'<a href="{link}">{path.name}</a>')
        for name, links in projects.items():
            page = f"<!DOCTYPE html><html><body>{''.join(links)}</body></html>"
            self.files[f"/simple/{name}/"] = page.encode()
            self.kinds[f"/simple/{name}/"] = "text/html"

    def __enter__(self) -> Self:
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.faults.hold.clear()
        self._http.shutdown()
        self._http.server_close()


class _Quiet(http.server.ThreadingHTTPServer):
    """Says nothing of a client that went away: another test may be reading standard error."""

    def handle_error(self, request: object, client_address: object) -> None:
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]  # passed on


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    upstream: Server

    def log_message(self, format: str, *args: object) -> None:
        """Not printed."""

    def do_GET(self) -> None:
        path = unquote(self.path.split("?")[0]).replace("/./", "/")
        up, faults = self.upstream, self.upstream.faults
        up.requests.append((path, self.headers.get("Range")))
        up.tokens.append(self.headers.get("Authorization") or "")
        while path in faults.hold:
            threading.Event().wait(0.02)
        if path in faults.page:
            return self._send(200, PAGE, "text/html")
        if path in faults.status or path not in up.files:
            return self._send(faults.status.get(path, 404), b"no", "text/plain")
        body = up.files[path]
        if path in faults.wrong:
            body = body[:-1] + bytes([body[-1] ^ 1])
        kind = up.kinds.get(path, "application/octet-stream")
        asked = self.headers.get("Range")
        if asked is None:
            return self._send(200, body, kind, cut=self._cut(path))
        first = int(asked.removeprefix("bytes=").removesuffix("-"))
        if first >= len(body):
            return self._send(416, b"", kind)
        self._send(206, body[first:], kind, f"bytes {first}-{len(body) - 1}/{len(body)}",
                   self._cut(path))  # fmt: skip
        return None

    def _cut(self, path: str) -> bool:
        left = self.upstream.faults.cut.get(path, 0)
        self.upstream.faults.cut[path] = left - 1
        return left > 0

    def _send(self, status: int, body: bytes, kind: str, part: str = "", cut: bool = False) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if part:
            self.send_header("Content-Range", part)
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if cut else body)
        if cut:
            self.close_connection = True
