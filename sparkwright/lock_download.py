"""Downloads that the resolver measures: size, sha256, and the commit inside a git archive.

`git archive` puts the commit into a tar's global pax header as `comment`; that is what
`git get-tar-commit-id` reads, and GitHub's archives carry it.
"""

from __future__ import annotations

import hashlib
import re
import tarfile
import tempfile
from collections.abc import Callable
from typing import IO, Final

import requests

from sparkwright.errors import Problem, SparkwrightError
from sparkwright.lock import Measured

CHUNK: Final = 1 << 20
# Seconds for a connection and for each piece (our choice; GitHub packs an archive on demand).
TIMEOUT_S: Final = (10.0, 120.0)


def measure(url: str, tell: Callable[[str], None] = lambda text: None) -> Measured:
    """Download a URL and throw the bytes away. Raises SparkwrightError."""
    tell(f"measuring {url}")
    with tempfile.TemporaryFile() as file:
        size, digest = _download(url, file)
        file.seek(0)
        return Measured(size, digest, _commit(file))


def _download(url: str, file: IO[bytes]) -> tuple[int, str]:
    digest = hashlib.sha256()
    size = 0
    headers = {"Accept-Encoding": "identity"}
    try:
        with requests.get(url, stream=True, timeout=TIMEOUT_S, headers=headers) as answer:
            if answer.status_code != requests.codes.ok:
                raise _error(url, f"the server answered {answer.status_code}", "check the address")
            for chunk in answer.iter_content(CHUNK):
                digest.update(chunk)
                file.write(chunk)
                size += len(chunk)
            length = answer.headers.get("Content-Length")
            page = answer.headers.get("Content-Type", "").startswith("text/html")
    except requests.RequestException as error:
        what = f"cannot be fetched ({type(error).__name__})"
        raise _error(url, what, "check the network and HTTPS_PROXY") from error
    if length is not None and int(length) != size:
        raise _error(url, f"{size} of {length} bytes came", "run it again")
    if page:
        # Its hash would be pinned as if it were the file.
        raise _error(url, "a web page came instead of the file", "a login or proxy page?")
    return size, digest.hexdigest()


def _commit(file: IO[bytes]) -> str | None:
    """The commit in a git archive's header; None for anything that is not one."""
    try:
        with tarfile.open(fileobj=file, mode="r:*") as archive:
            comment = archive.pax_headers.get("comment", "")
    except tarfile.TarError:
        return None
    return comment if re.fullmatch(r"[0-9a-f]{40}", comment) else None


def _error(url: str, what: str, hint: str) -> SparkwrightError:
    return SparkwrightError(str(Problem(url, what, hint)))
