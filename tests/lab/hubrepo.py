"""A model repository as a folder: its file list, hashes and commit, as the Hub would say them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

# What the Hub keeps in LFS by its default .gitattributes; everything else is an ordinary blob.
LFS_SUFFIXES = {".gguf", ".safetensors", ".bin", ".zst"}


@dataclass(frozen=True)
class HubFile:
    """One file of a repository.

    + oid: git's SHA-1 of the blob (for LFS: of the pointer file)
    + sha256: of the content; None for an ordinary blob, as on the Hub
    """

    path: str
    size: int
    oid: str
    sha256: str | None

    @property
    def etag(self) -> str:
        """What the Hub answers as ETag: the SHA-256 for LFS, else git's SHA-1."""
        return self.sha256 or self.oid


def _blob(content: bytes) -> str:
    # git's object id: SHA-1 is what git itself uses, not a choice of security.
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def sha256(path: Path) -> str:
    """SHA-256 of a file's content, read in pieces."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


_known: dict[tuple[str, int, int], HubFile] = {}


def describe(path: Path, name: str) -> HubFile:
    """Size and hashes of a file, remembered while its size and mtime stay the same."""
    stat = path.stat()
    key = (str(path), stat.st_size, stat.st_mtime_ns)
    if key not in _known:
        if path.suffix in LFS_SUFFIXES:
            digest = sha256(path)
            pointer = (
                f"version https://git-lfs.github.com/spec/v1\noid sha256:{digest}\n"
                f"size {stat.st_size}\n"
            )
            _known[key] = HubFile(name, stat.st_size, _blob(pointer.encode()), digest)
        else:
            _known[key] = HubFile(name, stat.st_size, _blob(path.read_bytes()), None)
    return _known[key]


@dataclass(frozen=True)
class Repo:
    """A repository folder `<org>/<name>`; a file `.gated` beside its files makes it gated."""

    name: str
    folder: Path

    @property
    def gated(self) -> bool:
        """Whether files need an accepted token."""
        return (self.folder / ".gated").exists()

    def files(self) -> list[HubFile]:
        """Every file, sorted by path."""
        paths = sorted(path for path in self.folder.rglob("*") if path.is_file())
        names = [(path, path.relative_to(self.folder).as_posix()) for path in paths]
        return [describe(path, name) for path, name in names if name != ".gated"]

    @property
    def commit(self) -> str:
        """40 hex digits that change exactly when a file does."""
        lines = "".join(f"{file.oid} {file.path}\n" for file in self.files())
        return hashlib.sha1(lines.encode(), usedforsecurity=False).hexdigest()

    @property
    def license(self) -> str:
        """The license that the README's front matter names, "unknown" without one."""
        readme = self.folder / "README.md"
        found = re.search(r"^license: *(\S+)$", readme.read_text() if readme.exists() else "", re.M)
        return found[1] if found else "unknown"


def find(folders: Sequence[Path], name: str) -> Repo | None:
    """The repository in the first folder that has it: a run's own wins over the cache's."""
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", name) or ".." in name:
        return None
    for folder in folders:
        if (folder / name).is_dir():
            return Repo(name, folder / name)
    return None
