"""The small fleet of place.py, its upstream, and a bundle of it that is whole."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bundle.place import Place
from tests.bundle.server import Server


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """An upstream; uv asks it for wheels and keeps nothing from other tests."""
    for name in ("HF_TOKEN", "HF_ENDPOINT", "SPARKS_FILE", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    with Server() as found:
        monkeypatch.setenv("UV_DEFAULT_INDEX", f"{found.url}/simple/")
        monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv-cache"))
        yield found


@pytest.fixture
def place(tmp_path: Path, server: Server) -> Place:
    """A fleet that has no bundle yet."""
    (tmp_path / "fleet").mkdir()
    return Place(tmp_path / "fleet", server)


@pytest.fixture
def filled(place: Place) -> Place:
    """A fleet with a whole bundle."""
    place.fill()
    place.said.clear()
    place.server.requests.clear()
    return place


def spoil(path: Path) -> None:
    """Change the last byte of a file and keep its size."""
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data))


def copy_in(source: Path, folder: Path) -> None:
    """Put a foreign file into a folder."""
    shutil.copy(source, folder / source.name)
