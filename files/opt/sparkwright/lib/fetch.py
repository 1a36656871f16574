"""One file from the network, proved: resumed, checked against its hash, renamed at the end.

    fetch.py URL DEST --sha256 H | --git-sha1 H [--size N] [--mode 0644]

URL may be a file:// one: a bundle that lies on this machine.

Exit 0 when DEST holds the content (a second run asks nothing of the network), 1 with one line
that says what is wrong. The unfinished part is DEST.partial, on the same file system.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import IO

from alone import held
from fetch_job import CHUNK, Job

# Seconds without a byte; attempts; the wait between; the wait for another fetch (our choices).
TIMEOUT_S, ATTEMPTS, WAIT_S, OTHER_S = 60.0, 4, 2.0, 600.0
PAGE_HINT = "a web page came instead of the file: a login or proxy page"


class FetchError(Exception):
    """The file cannot be had; the message is for the user."""


def main(argv: list[str]) -> int:
    """Run one job; see the module's docstring."""
    parser = argparse.ArgumentParser(prog="fetch.py", description="fetch one file and prove it")
    parser.add_argument("url", type=_url)
    parser.add_argument("dest", type=Path)
    proof = parser.add_mutually_exclusive_group(required=True)
    proof.add_argument("--sha256", type=_sha256)
    proof.add_argument("--git-sha1", help="git's name for a blob, 40 hex digits")
    parser.add_argument("--size", type=int, help="in bytes")
    parser.add_argument("--mode", type=lambda text: int(text, 8), default=0o644)
    options = parser.parse_args(argv)
    names = (options.url, options.dest, options.sha256 or "", options.size, options.mode)
    job = Job(*names, options.git_sha1)
    try:
        print(fetch(job))
    except (FetchError, OSError) as error:
        print(f"fetch: {error}", file=sys.stderr)
        return 1
    return 0


def _url(text: str) -> str:
    if not text.startswith(("http://", "https://", "file:///")):
        raise argparse.ArgumentTypeError(f"{text}: only http, https and file")
    return text


def _sha256(text: str) -> str:
    if not re.fullmatch(r"[0-9a-f]{64}", text):
        raise argparse.ArgumentTypeError(f"{text}: must be 64 hex digits")
    return text


def fetch(job: Job) -> str:
    """Bring the file; returns a line for the user. Raises FetchError or OSError."""
    if not _there(job):
        with held(job.partial, OTHER_S) as file:
            if not _there(job):
                _require_space(job)
                _download(job, file)
                _check(job)
                os.fsync(file.fileno())
                job.partial.chmod(job.mode)
                job.partial.replace(job.dest)
                return f"{job.dest}: {job.dest.stat().st_size} bytes, {job.proof}"
            job.partial.unlink()  # another fetch, which we waited for, has brought DEST
    job.dest.chmod(job.mode)
    return f"{job.dest}: already there"


def _there(job: Job) -> bool:
    return job.dest.is_file() and job.hash_of(job.dest) == job.proof


def _require_space(job: Job) -> None:
    missing = (job.size or 0) - job.partial.stat().st_size
    free = shutil.disk_usage(job.dest.parent).free
    if missing > free:
        raise FetchError(
            f"{job.dest}: {missing} bytes are missing, {free} are free; free {missing - free} more"
        )


def _download(job: Job, file: IO[bytes]) -> None:
    """Fill the partial file, resuming after a cut; a whole one of the right hash is left alone."""
    for attempt in range(1, ATTEMPTS + 1):
        if job.partial.stat().st_size and job.hash_of(job.partial) == job.proof:
            return
        try:
            _request(job, file)
            return
        except urllib.error.HTTPError as error:
            if error.code != 416 and error.code < 500:
                raise FetchError(f"{job.shown}: the server answered {error.code}") from error
            problem = f"the server answered {error.code}"
            if error.code == 416:  # what lies there is longer than the file: start over
                file.truncate(0)
        except (OSError, HTTPException) as error:
            if isinstance(getattr(error, "reason", None), FileNotFoundError):
                raise FetchError(f"{job.shown}: is not there") from error
            problem = str(error)
        if attempt < ATTEMPTS:
            time.sleep(WAIT_S * attempt)
    raise FetchError(f"{job.shown}: {problem}; run it again to go on from there")


def _request(job: Job, file: IO[bytes]) -> None:
    have = job.partial.stat().st_size
    headers = {"User-Agent": "sparkwright", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
    request = urllib.request.Request(job.url, headers=headers)
    with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
        begins = answer.headers.get("Content-Range") or ""
        if have and not (answer.status == 206 and begins.startswith(f"bytes {have}-")):
            file.truncate(0)  # a plain 200 starts at zero
            have = 0
        length = answer.headers.get("Content-Length")
        _refuse_length(job, answer, have + int(length) if length else None)
        _copy(job, answer, file, have)
        if length and job.partial.stat().st_size < have + int(length):
            raise ConnectionError(f"the connection ended before {have + int(length)} bytes")


def _refuse_length(job: Job, answer: HTTPResponse, length: int | None) -> None:
    """Refuse a wrong announced length before its bytes come."""
    if job.size is None or length is None or length == job.size:
        return
    page = (answer.headers.get("Content-Type") or "").startswith("text/html")
    hint = f"; {PAGE_HINT}" if page else ""
    raise FetchError(f"{job.shown}: {length} bytes offered, {job.size} expected{hint}")


def _copy(job: Job, answer: HTTPResponse, file: IO[bytes], have: int) -> None:
    while chunk := answer.read(CHUNK):
        have += len(chunk)
        if job.size is not None and have > job.size:
            file.truncate(0)
            raise FetchError(f"{job.shown}: more than the expected {job.size} bytes came")
        file.write(chunk)
    file.flush()


def _check(job: Job) -> None:
    size = job.partial.stat().st_size
    found = job.hash_of(job.partial)
    if found == job.proof and job.size in (None, size):
        return
    with job.partial.open("rb") as file:
        head = file.read(512).lstrip().lower()
    hint = f"; {PAGE_HINT}" if head.startswith((b"<!doctype html", b"<html")) else ""
    job.partial.unlink()  # a wrong part must not be resumed from
    raise FetchError(
        f"{job.shown}: {size} bytes with {found}, expected "
        f"{'' if job.size is None else f'{job.size} bytes with '}{job.proof.split()[1]}{hint}"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
