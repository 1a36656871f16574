"""One file of a bundle from the network: resumed, proved, and put in its place at the end."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit, urlunsplit

import requests
import urllib3

from sparkwright.bundle_hash import CHUNK, Hashes, Stopped, Want, hash_file
from sparkwright.errors import Problem, SparkwrightError

ATTEMPTS: Final = 5
# Seconds for a connection and for each piece (our choice, as for the machines' fetch.py).
TIMEOUT_S: Final = (10.0, 60.0)
AGAIN: Final = "run it again: what is there is kept"


class DiskFull(SparkwrightError):
    """No more bytes fit: every other download would end the same way."""


def fetch(
    want: Want,
    dest: Path,
    partial: Path,
    session: requests.Session,
    stop: threading.Event,
    came: Callable[[int], None],
) -> Hashes:
    """
    Bring one file; returns its hashes.

    + partial: where the unfinished part lies, on the same file system
    + came: told the bytes as they come, negative when some are thrown away

    Raises SparkwrightError, DiskFull, Stopped.
    """
    try:
        partial.parent.mkdir(parents=True, exist_ok=True)
        dest.parent.mkdir(parents=True, exist_ok=True)
        return _Fetch(want, partial, session, stop, came).run(dest)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            what = f"the disk is full; {want.name} does not fit"
            raise DiskFull(str(Problem(str(dest.parent), what, f"free some, {AGAIN}"))) from error
        if error.errno == errno.EFBIG:
            what = f"its file system cannot hold a file of {want.size} bytes (FAT32 ends at 4 GiB)"
            raise DiskFull(str(Problem(str(dest.parent), what, "use exFAT or ext4"))) from error
        raise SparkwrightError(str(Problem(str(error.filename), str(error.strerror)))) from error


class _Fetch:
    def __init__(
        self,
        want: Want,
        partial: Path,
        session: requests.Session,
        stop: threading.Event,
        came: Callable[[int], None],
    ) -> None:
        self.want, self.partial, self.session = want, partial, session
        self.stop, self.came = stop, came
        self.hashes = Hashes(want)

    def run(self, dest: Path) -> Hashes:
        if self.partial.exists():
            self.hashes = hash_file(self.partial, self.want, self.stop)
            self.came(self.hashes.size)
        problem = ""
        for attempt in range(ATTEMPTS):
            if attempt and self.stop.wait(2.0 ** (attempt - 1)):
                raise Stopped
            if self.hashes.size and self.hashes.proves(self.want):
                break
            try:
                problem = self._request()
            except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
                problem = f"the connection broke ({type(error).__name__})"
            if not problem:
                break
        else:
            raise self._error(f"{problem}; {self.hashes.size} bytes came", AGAIN)
        if not self.hashes.proves(self.want):
            raise self._wrong()
        self.partial.replace(dest)
        return self.hashes

    def _request(self) -> str:
        """One request; what went wrong, when another one may help. Raises SparkwrightError."""
        have = self.hashes.size
        headers = {"Accept-Encoding": "identity", **(self.want.headers or {})}
        if have:
            headers["Range"] = f"bytes={have}-"
        with self.session.get(
            self.want.url, headers=headers, stream=True, timeout=TIMEOUT_S
        ) as answer:
            if answer.status_code == 416:
                self._restart()
                return "the server has fewer bytes than were here"
            if answer.status_code >= 500 or answer.status_code == 429:
                return f"the server answered {answer.status_code}"
            if answer.status_code not in (200, 206):
                raise self._refusal(answer.status_code)
            begins = answer.headers.get("Content-Range", "")
            if have and not (answer.status_code == 206 and begins.startswith(f"bytes {have}-")):
                self._restart()
            return self._body(answer)

    def _body(self, answer: requests.Response) -> str:
        length = answer.headers.get("Content-Length")
        whole = self.hashes.size + int(length) if length and length.isdigit() else None
        if None not in (whole, self.want.size) and whole != self.want.size:
            raise self._page(answer) or self._error(
                f"{whole} bytes are offered, {self.want.size} expected", "has it been replaced?"
            )
        with self.partial.open("ab") as file:
            # Not iter_content: at a cut it throws away what it has gathered.
            while chunk := answer.raw.read1(CHUNK, decode_content=False):
                if self.stop.is_set():
                    raise Stopped
                file.write(chunk)
                self.hashes.update(chunk)
                self.came(len(chunk))
                if self.want.size is not None and self.hashes.size > self.want.size:
                    break
        if whole is not None and self.hashes.size < whole:
            return f"the connection ended before {whole} bytes"
        if self.hashes.proves(self.want):
            return ""
        error = self._page(answer) or self._wrong()
        if answer.status_code == 206:  # the part from an earlier run may have been the wrong one
            self._restart()
            return "what was here already was no part of it"
        raise error

    def _restart(self) -> None:
        self.came(-self.hashes.size)
        self.hashes = Hashes(self.want)
        self.partial.write_bytes(b"")

    def _page(self, answer: requests.Response) -> SparkwrightError | None:
        """A login or proxy page, which comes with status 200."""
        head = self.partial.read_bytes()[:512].lstrip().lower() if self.partial.exists() else b""
        kind = answer.headers.get("Content-Type", "")
        if not kind.startswith("text/html") and not head.startswith((b"<!doctype html", b"<html")):
            return None
        self.partial.unlink(missing_ok=True)
        return self._error("a web page came instead of the file", "a login or proxy page?")

    def _wrong(self) -> SparkwrightError:
        self.partial.unlink(missing_ok=True)  # a wrong part must not be resumed from
        wanted = self.want.sha256 or self.want.git_sha1
        size = "" if self.want.size is None else f"{self.want.size} bytes with "
        what = f"{self.hashes.size} bytes with {self.hashes.told} came, expected {size}{wanted}"
        return self._error(what, "find out why before you change the lock")

    def _refusal(self, status: int) -> SparkwrightError:
        hint = "check the address"
        if status in (401, 403):
            hint = "gated: accept its terms and set HF_TOKEN of that account"
        return self._error(f"the server answered {status}", hint)

    def _error(self, what: str, hint: str) -> SparkwrightError:
        parts = urlsplit(self.want.url)  # user, password and query may be secrets
        url = urlunsplit((parts.scheme, parts.netloc.split("@")[-1], parts.path, "", ""))
        return SparkwrightError(str(Problem(self.want.name, f"{url}: {what}", hint)))
