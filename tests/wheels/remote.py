"""Single files out of a wheel on an index, by ranges of bytes: kilobytes instead of 400 MB."""

from __future__ import annotations

import io
import tempfile
import zipfile
from collections.abc import Collection
from pathlib import Path

import requests

from sparkwright.wheel_sets import Chosen, compile_set
from tests.lab.host import cache_dir, made_beside

TIMEOUT_S = 120.0
READ_AHEAD = 1 << 20


class RemoteFile(io.RawIOBase):
    """A file on a server that answers ranges. `fetched` counts the bytes that came."""

    def __init__(self, url: str) -> None:
        self.url, self.at, self.fetched = url, 0, 0
        self.web = requests.Session()
        head = self.web.head(url, allow_redirects=True, timeout=TIMEOUT_S)
        head.raise_for_status()
        self.size = int(head.headers["Content-Length"])

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self.at, io.SEEK_END: self.size}[whence]
        self.at = start + offset
        return self.at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # any buffer
        if self.at >= self.size:
            return 0
        last = min(self.at + len(buffer), self.size) - 1
        headers = {"Range": f"bytes={self.at}-{last}", "Accept-Encoding": "identity"}
        answer = self.web.get(self.url, headers=headers, timeout=TIMEOUT_S)
        if answer.status_code != requests.codes.partial_content:
            raise OSError(f"{self.url}: the server does not answer ranges: {answer.status_code}")
        data = answer.content
        buffer[: len(data)] = data
        self.at += len(data)
        self.fetched += len(data)
        return len(data)


class RemoteWheel:
    """A wheel on an index."""

    def __init__(self, url: str) -> None:
        self.file = RemoteFile(url)
        self.zip = zipfile.ZipFile(io.BufferedReader(self.file, READ_AHEAD))

    def names(self) -> list[str]:
        """Paths of its files."""
        return self.zip.namelist()

    def read(self, name: str) -> bytes:
        """One file, checked by the archive's own checksum."""
        return self.zip.read(name)


def locate(requirement: str) -> Chosen:
    """The wheel of one distribution for a Spark, as the client's index has it."""
    text = (
        '[project]\nname = "one"\nversion = "0"\nrequires-python = "==3.12.*"\n'
        f'dependencies = ["{requirement}"]\n'
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "one.toml")
        path.write_text(text)
        return compile_set(path, [], ["--no-deps"])[0]


def sources(requirement: str, files: Collection[str]) -> Path:
    """A directory of the lab's cache with some files of a wheel, fetched once."""
    target = cache_dir() / "vllm-sources" / f"{requirement.replace('==', '-')}-{len(files)}"
    if not target.exists():
        wheel = RemoteWheel(locate(requirement).file.url)
        with made_beside(target) as folder:
            for name in files:
                path = folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(wheel.read(name))
    return target
