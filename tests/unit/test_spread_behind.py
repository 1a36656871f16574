"""What a copy leaves in the page cache, as the kernel counts it (mincore(2))."""

from __future__ import annotations

import ctypes
import hashlib
import mmap
import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import pytest

from tests.lab.host import cache_dir
from tests.unit.machine_case import program

MIB = 1 << 20


def cached(path: Path, begin: int, size: int) -> int:
    """Bytes of a part of a file that are in memory."""
    libc = ctypes.CDLL(None, use_errno=True)
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as view:
        pages = (ctypes.c_ubyte * (size // mmap.PAGESIZE))()
        place = ctypes.addressof(ctypes.c_char.from_buffer(view)) + begin
        if libc.mincore(ctypes.c_void_p(place), ctypes.c_size_t(size), pages):
            raise OSError(ctypes.get_errno(), "mincore")
        return sum(page & 1 for page in pages) * mmap.PAGESIZE


def opened() -> int:
    """Files that this process has open, the one by which they are listed among them."""
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture
def file() -> Iterator[tuple[Path, int]]:
    """A file of 12 MiB that is on the disk and in memory, and its descriptor."""
    # Where the lab's disks are: /tmp may be memory, which has nothing to drop.
    with TemporaryDirectory(dir=cache_dir()) as folder:
        path = Path(folder) / "shard"
        path.write_bytes(os.urandom(12 * MIB))
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            assert cached(path, 0, 12 * MIB) == 12 * MIB
            yield path, descriptor
        finally:
            os.close(descriptor)


def test_a_receiver_keeps_the_newest_part(file: tuple[Path, int]) -> None:
    path, descriptor = file
    behind = program("spread_behind").Behind(keep=8 * MIB)
    for begin in (0, 4 * MIB, 8 * MIB):
        behind.wrote(descriptor, begin, 4 * MIB)
        os.pread(descriptor, 4 * MIB, begin)  # these were clean and went; a receiver's are dirty
    assert cached(path, 0, 4 * MIB) == 0
    assert cached(path, 4 * MIB, 8 * MIB) == 8 * MIB
    behind.end()
    assert cached(path, 4 * MIB, 8 * MIB) == 8 * MIB


def test_what_was_kept_holds_no_file_open(file: tuple[Path, int]) -> None:
    _, descriptor = file
    behind = program("spread_behind").Behind(keep=4 * MIB)
    before = opened()
    for begin in range(0, 12 * MIB, MIB):
        behind.wrote(descriptor, begin, MIB)
    assert opened() == before + 4
    behind.wrote(descriptor, 0, MIB - 1)  # too small to be worth an open file
    assert opened() == before + 4
    behind.end()
    assert opened() == before


def test_who_gives_drops_what_has_gone(file: tuple[Path, int]) -> None:
    path, descriptor = file
    behind = program("spread_behind")
    sent = behind.Sent(descriptor, 4 * MIB)
    sent.upto(8 * MIB, whole=False)  # less than a window: it may not have arrived yet
    assert cached(path, 4 * MIB, 8 * MIB) == 8 * MIB
    sent.upto(12 * MIB, whole=True)
    assert cached(path, 4 * MIB, 8 * MIB) == 0
    assert cached(path, 0, 4 * MIB) == 4 * MIB


def test_the_server_drops_what_it_sent(file: tuple[Path, int]) -> None:
    path, _ = file
    handler = program("spread_serve").Handler
    giving = handler.__new__(handler)
    # No socket: what waits in one is still in use, and its pages stay.
    giving.connection = SimpleNamespace(sendfile=lambda source, at, size: size)
    giving.server = SimpleNamespace(shared=SimpleNamespace(asked=0.0))
    with path.open("rb", buffering=0) as source:
        giving._stream(source, 4 * MIB, 12 * MIB)
    assert cached(path, 0, 12 * MIB) == 4 * MIB


def test_a_receiver_tells_of_all_that_it_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of what an earlier run left, and behind a change of the machine that gives."""
    told: list[tuple[int, int]] = []
    behind = SimpleNamespace(wrote=lambda descriptor, begin, size: told.append((begin, size)))
    part = program("spread_part")
    monkeypatch.setattr(part, "WINDOW", 4 * MIB)
    data = os.urandom(10 * MIB)
    (tmp_path / "beside").write_bytes(data[: 5 * MIB])
    expected = f"sha256:{hashlib.sha256(data).hexdigest()}"
    whole = part.Part(tmp_path / "place", tmp_path / "beside", len(data), expected)
    arriving = part.Arriving([whole], behind)
    assert arriving.resume() == 5 * MIB
    arriving.write(memoryview(data)[5 * MIB : 7 * MIB])
    arriving.close()
    arriving.reopen()
    for at in range(7, 10):
        arriving.write(memoryview(data)[at * MIB : (at + 1) * MIB])
    assert (tmp_path / "place").read_bytes() == data
    assert told == [(0, 4 * MIB), (4 * MIB, 4 * MIB), (8 * MIB, 2 * MIB)]


def test_a_descriptor_without_a_page_cache_is_no_error() -> None:
    reader, writer = os.pipe()
    program("spread_behind").forget(reader, 0, MIB)
    os.close(reader)
    os.close(writer)
