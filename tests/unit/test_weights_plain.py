"""Weights out of a plain tree: on a web server, and on the machine itself."""

from __future__ import annotations

import functools
import getpass
import http.server
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.unit.hub_server import COMMIT, FakeHub
from tests.unit.weights_case import LIB, REPO, SHARDS, Case


class Handler(http.server.SimpleHTTPRequestHandler):
    """Python's own server, as an intranet may have it: no ranges, no headers of the Hub."""

    asked: list[str] = []  # noqa: RUF012 - shared on purpose: a request has its own handler

    def log_message(self, format: str, *args: Any) -> None:
        self.asked.append(self.path)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A bundle's hub/ with the case's files."""
    return tmp_path / "bundle/hub"


@pytest.fixture
def case(tmp_path: Path, tree: Path) -> Iterator[Case]:
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Handler, directory=str(tree))
    )
    Handler.asked.clear()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    made = Case(tmp_path, cast(FakeHub, SimpleNamespace(endpoint=endpoint)))
    made.spec |= {"plain": True, "hub_python": "/nonexistent"}
    for name, content in made.wanted.items():
        path = tree / REPO / "resolve" / COMMIT / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    yield made
    server.shutdown()
    server.server_close()


def test_a_plain_server_is_enough(case: Case) -> None:
    assert any("git_sha1" in file for file in case.spec["files"])
    case.fetch()
    assert case.status()["ok"]
    assert not (case.dir / ".cache/plain").exists()
    Handler.asked.clear()
    case.fetch()
    assert Handler.asked == []


def test_so_is_a_directory_on_the_machine(case: Case, tree: Path) -> None:
    case.spec["endpoint"] = f"file://{tree}"
    case.fetch()
    assert case.status()["ok"]
    assert Handler.asked == []


def test_a_missing_file_is_named_and_the_others_stay(case: Case, tree: Path) -> None:
    lost = tree / REPO / "resolve" / COMMIT / SHARDS[2]
    content = lost.read_bytes()
    lost.unlink()
    said = case.fetch(code=1)
    assert f"{REPO}: {SHARDS[2]}: fetch:" in said
    assert "the server answered 404" in said
    lost.write_bytes(content)
    case.fetch()
    assert case.status()["ok"]


def test_a_login_page_is_named(case: Case, tree: Path) -> None:
    path = tree / REPO / "resolve" / COMMIT / "config.json"
    path.write_text("<html>log in</html>")
    assert "config.json: fetch:" in (said := case.fetch(code=1))
    assert "19 bytes offered, 25 expected" in said


def test_a_damaged_file_gets_no_name(case: Case, tree: Path) -> None:
    path = tree / REPO / "resolve" / COMMIT / SHARDS[0]
    path.write_bytes(b"x" + path.read_bytes()[1:])
    assert "bytes with sha256" in case.fetch(code=1)
    assert not (case.dir / SHARDS[0]).exists()


def test_files_of_a_bundle_are_linked_and_then_only_proved(case: Case, tree: Path) -> None:
    held = tree / REPO / "resolve" / COMMIT
    case.dir.mkdir()
    names = [*case.wanted, "sub/not-there"]
    done = subprocess.run(
        [sys.executable, str(LIB / "weights_link.py"), str(held), str(case.dir), getpass.getuser()],
        input=json.dumps(names), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "1 files are not linked" in done.stdout
    for name in case.wanted:
        assert (case.dir / name).samefile(held / name)
    case.fetch()
    assert case.status()["ok"]
    assert Handler.asked == []
    assert not list(case.dir.rglob(".sparkwright-*.tmp"))
