"""What fetch.py is to bring, and how its content is proved."""

from __future__ import annotations

import hashlib
import urllib.parse
from dataclasses import dataclass
from pathlib import Path

CHUNK = 1 << 20


@dataclass(frozen=True)
class Job:
    """What to fetch; size in bytes, None when it is not known; mode in octal."""

    url: str
    dest: Path
    sha256: str
    size: int | None
    mode: int
    git_sha1: str | None = None  # instead of sha256: git's name for the content

    @property
    def proof(self) -> str:
        """The hash that the content must have, with its kind."""
        return f"git_sha1 {self.git_sha1}" if self.git_sha1 else f"sha256 {self.sha256}"

    @property
    def partial(self) -> Path:
        """Where the unfinished part lies."""
        return self.dest.with_name(self.dest.name + ".partial")

    @property
    def shown(self) -> str:
        """The URL without user, password and query, which may be secrets."""
        parts = urllib.parse.urlsplit(self.url)
        host = parts.netloc.split("@")[-1]
        return urllib.parse.urlunsplit((parts.scheme, host, parts.path, "", ""))

    def hash_of(self, path: Path) -> str:
        """The hash of a file, of the kind that proves this job."""
        with path.open("rb") as file:
            if self.git_sha1 is None:
                return f"sha256 {hashlib.file_digest(file, 'sha256').hexdigest()}"
            # Not for secrecy: it is how git and the Hub name content.
            found = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
            while chunk := file.read(CHUNK):
                found.update(chunk)
            return f"git_sha1 {found.hexdigest()}"
