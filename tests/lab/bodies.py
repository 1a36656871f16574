"""Bodies of the upstream's answers: files, the wheel index, and reading them in pieces."""

from __future__ import annotations

import functools
import html
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from .hubrepo import sha256
from .replies import Reply, failure

CHUNK = 1 << 16


def static(root: Path, name: str) -> Reply:
    """A file below a folder; what leads out of it does not exist."""
    path = (root / name).resolve()
    if root.resolve() not in path.parents or not path.is_file():
        return failure(404, f"no such file: {name}")
    return Reply(200, path, {"Content-Type": "application/octet-stream"})


@functools.cache
def _sha256(path: Path, size: int, mtime_ns: int) -> str:
    return sha256(path)


def index(folders: Mapping[str, Path], project: str) -> Reply:
    """PEP 503: the projects, or the files of one with their SHA-256.

    + folders: URL prefix -> folder with wheels that is served below it
    """
    files: dict[str, list[tuple[str, Path]]] = {}
    for prefix, folder in folders.items():
        for path in sorted(folder.iterdir()):
            name = re.sub(r"[-_.]+", "-", path.name.split("-")[0]).lower()
            files.setdefault(name, []).append((f"{prefix}{path.name}", path))
    if not project:
        links = [(f"/simple/{name}/", name) for name in files]
    elif project in files:
        links = []
        for url, path in files[project]:
            stat = path.stat()
            digest = _sha256(path, stat.st_size, stat.st_mtime_ns)
            links.append((f"{url}#sha256={digest}", path.name))
    else:
        return failure(404, f"no project {project}")
    body = "".join(f'<a href="{html.escape(url)}">{name}</a><br>\n' for url, name in links)
    return Reply(200, f"<!DOCTYPE html>\n{body}".encode(), {"Content-Type": "text/html"})


def pieces(body: bytes | Path, first: int, end: int, size: int) -> Iterator[bytes]:
    """A body from `first` to before `end` in pieces of at most `size`; files are not read whole."""
    if isinstance(body, bytes):
        if first < end:
            yield body[first:end]
        return
    with body.open("rb") as handle:
        handle.seek(first)
        while first < end:
            piece = handle.read(min(size, end - first))
            if not piece:
                return
            yield piece
            first += len(piece)
