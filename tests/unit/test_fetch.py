"""fetch.py as a real process against a small server that misbehaves on request."""

from __future__ import annotations

import hashlib
import http.server
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.weights_case import LIB

CONTENT = bytes(range(256)) * 9000 + b"end"
HASH = hashlib.sha256(CONTENT).hexdigest()
PAGE = b"<!DOCTYPE html><html><body>Please log in</body></html>"


class Server(http.server.ThreadingHTTPServer):
    """Serves `content`; `cuts` answers end in the middle, `ranges` says whether 206 is known."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.content = CONTENT
        self.kind = "application/octet-stream"
        self.cuts = 0
        self.ranges = True
        self.status = 200
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/file.bin"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def log_message(self, format: str, *args: Any) -> None:
        """Not printed."""

    def do_GET(self) -> None:
        server = self.server
        asked = self.headers.get("Range", "")
        server.asked.append(asked)
        if server.status != 200:
            self.send_error(server.status)
            return
        found = re.match(r"bytes=(\d+)-", asked)
        start = int(found[1]) if found and server.ranges else 0
        if start >= len(server.content):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Type", server.kind)
        self.send_header("Content-Length", str(len(server.content) - start))
        if start:
            size = len(server.content)
            self.send_header("Content-Range", f"bytes {start}-{size - 1}/{size}")
        self.end_headers()
        rest = server.content[start:]
        if server.cuts > 0:
            server.cuts -= 1
            rest = rest[: len(rest) // 2]
        self.wfile.write(rest)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        threading.Thread(target=running.serve_forever, args=(0.05,), daemon=True).start()
        yield running
        running.shutdown()


@pytest.fixture
def dest(tmp_path: Path) -> Path:
    return tmp_path / "file.bin"


def fetch(server: Server, dest: Path, *words: str, code: int = 0, sha256: str = HASH) -> str:
    argv = [sys.executable, str(LIB / "fetch.py"), server.url, str(dest), "--sha256", sha256]
    answer = subprocess.run([*argv, *words], capture_output=True, text=True)
    assert answer.returncode == code, answer
    return answer.stdout + answer.stderr


def test_file_arrives_with_its_mode(server: Server, dest: Path) -> None:
    fetch(server, dest, "--size", str(len(CONTENT)), "--mode", "0600")
    assert dest.read_bytes() == CONTENT
    assert dest.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in dest.parent.iterdir()] == [dest.name]


def test_second_run_asks_nothing(server: Server, dest: Path) -> None:
    fetch(server, dest)
    server.asked.clear()
    assert "already there" in fetch(server, dest)
    assert server.asked == []


def test_wrong_file_is_replaced(server: Server, dest: Path) -> None:
    dest.write_bytes(b"old")
    fetch(server, dest)
    assert dest.read_bytes() == CONTENT


def test_cut_connection_is_resumed(server: Server, dest: Path) -> None:
    server.cuts = 1
    fetch(server, dest)
    assert dest.read_bytes() == CONTENT
    assert server.asked == ["", f"bytes={len(CONTENT) // 2}-"]


def test_partial_file_of_an_earlier_run_is_resumed(server: Server, dest: Path) -> None:
    dest.with_name("file.bin.partial").write_bytes(CONTENT[:1000])
    fetch(server, dest)
    assert dest.read_bytes() == CONTENT
    assert server.asked == ["bytes=1000-"]


def test_whole_partial_file_is_only_renamed(server: Server, dest: Path) -> None:
    dest.with_name("file.bin.partial").write_bytes(CONTENT)
    fetch(server, dest)
    assert dest.read_bytes() == CONTENT
    assert server.asked == []


def test_server_without_ranges_starts_over(server: Server, dest: Path) -> None:
    dest.with_name("file.bin.partial").write_bytes(CONTENT[:1000])
    server.ranges = False
    fetch(server, dest)
    assert dest.read_bytes() == CONTENT


def test_partial_longer_than_the_file_starts_over(server: Server, dest: Path) -> None:
    dest.with_name("file.bin.partial").write_bytes(b"x" * (len(CONTENT) + 5))
    fetch(server, dest)
    assert dest.read_bytes() == CONTENT
    assert server.asked == [f"bytes={len(CONTENT) + 5}-", ""]


def test_wrong_hash_names_everything_and_leaves_nothing(server: Server, dest: Path) -> None:
    wanted = "0" * 64
    text = fetch(server, dest, sha256=wanted, code=1)
    assert text == (
        f"fetch: {server.url}: {len(CONTENT)} bytes with sha256 {HASH}, expected {wanted}\n"
    )
    assert list(dest.parent.iterdir()) == []


def test_login_page_is_named(server: Server, dest: Path) -> None:
    server.content, server.kind = PAGE, "text/html; charset=utf-8"
    page = "a web page came instead of the file: a login or proxy page"
    text = fetch(server, dest, "--size", str(len(CONTENT)), code=1)
    assert f"{len(PAGE)} bytes offered, {len(CONTENT)} expected; {page}" in text
    assert page in fetch(server, dest, code=1)
    assert not dest.exists()


def test_bad_resume_is_not_kept(server: Server, dest: Path) -> None:
    partial = dest.with_name("file.bin.partial")
    partial.write_bytes(b"y" * 1000)
    assert "expected" in fetch(server, dest, code=1)
    assert not partial.exists()
    fetch(server, dest)
    assert dest.read_bytes() == CONTENT


def test_absent_file_fails_at_once(server: Server, dest: Path) -> None:
    server.status = 404
    assert f"{server.url}: the server answered 404" in fetch(server, dest, code=1)
    assert len(server.asked) == 1


def test_user_and_query_of_the_url_are_not_shown(server: Server, dest: Path) -> None:
    server.status = 403
    url = server.url + "?secret=s3cr3t"
    argv = [sys.executable, str(LIB / "fetch.py"), url, str(dest), "--sha256", HASH]
    answer = subprocess.run(argv, capture_output=True, text=True)
    assert answer.returncode == 1
    assert "s3cr3t" not in answer.stdout + answer.stderr


def test_size_larger_than_the_file_system_is_refused(server: Server, dest: Path) -> None:
    assert "bytes are missing" in fetch(server, dest, "--size", str(1 << 60), code=1)
    assert server.asked == []


def test_only_http_and_files_are_accepted(dest: Path) -> None:
    argv = [sys.executable, str(LIB / "fetch.py"), "ftp://127.0.0.1/passwd", str(dest)]
    answer = subprocess.run([*argv, "--sha256", HASH], capture_output=True, text=True)
    assert answer.returncode == 2
    assert "only http, https and file" in answer.stderr


@pytest.mark.parametrize("brings", [True, False])
def test_another_fetch_is_waited_for(server: Server, dest: Path, brings: bool) -> None:
    """One whose laptop died goes on; it brings the file, or dies as well and leaves its part."""
    partial = dest.with_name("file.bin.partial")
    partial.write_bytes(CONTENT if brings else CONTENT[:1000])
    end = "os.replace(sys.argv[1], sys.argv[2])" if brings else "pass"
    hold = (
        "import fcntl, os, sys, time; f = open(sys.argv[1], 'ab'); fcntl.flock(f, fcntl.LOCK_EX); "
        f"print('held', flush=True); time.sleep(0.7); {end}"
    )
    argv = [sys.executable, "-c", hold, str(partial), str(dest)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        fetch(server, dest)
    assert dest.read_bytes() == CONTENT
    assert [path.name for path in dest.parent.iterdir()] == [dest.name]
    assert server.asked == ([] if brings else ["bytes=1000-"])
