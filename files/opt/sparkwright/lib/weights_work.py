"""The `fetch` of weights.py: locked, stoppable, with one line that says why it failed.

A module of its own, imported only for a fetch: a `status` of one file took 0.10 s with the HTTP
client's import and takes 0.06 s without it (Python 3.11, two EPYC cores).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import sys
from collections.abc import Iterator
from types import FrameType

from weights_fetch import JobError
from weights_files import remove_stale, why
from weights_job import run, told
from weights_progress import Progress
from weights_spec import LOCK, Spec

STOPPED_EXIT = 128 + signal.SIGTERM


class Stopped(BaseException):
    """SIGTERM or SIGINT came. Not an Exception: nothing but the end of the program handles it."""


def fetch(spec: Spec, deep: bool) -> int:
    """Bring a model's files and prove them; returns the exit code (see weights.py)."""
    os.umask(0o022)  # files that every service can read
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGINT, _stop)
    progress = Progress(spec.progress)
    try:
        spec.dir.mkdir(parents=True, exist_ok=True)
        with _locked(spec):
            try:
                run(spec, deep, progress, _say)
            except BaseException:
                # Nothing of an unfinished download can be used again by this client.
                remove_stale(spec)
                raise
        progress.phase("done", spec.total_bytes, spec.total_bytes, told(spec))
    except (JobError, OSError) as error:
        return _failed(progress, "; ".join(filter(None, (why(error), told(spec)))))
    except Stopped:
        print("weights: stopped; finished files are kept", file=sys.stderr)
        progress.phase("stopped", spec.total_bytes)
        return STOPPED_EXIT
    return 0


def _failed(progress: Progress, message: str) -> int:
    print(f"weights: {message}", file=sys.stderr)
    try:
        progress.phase("failed", 0, message=message)
    except OSError as error:
        print(f"weights: the progress file cannot be written: {error}", file=sys.stderr)
    return 1


@contextlib.contextmanager
def _locked(spec: Spec) -> Iterator[None]:
    """Hold the directory's lock; it goes with the process, however that ends."""
    descriptor = os.open(spec.dir / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise JobError(
                f"{spec.dir}: another weights job is at work here; wait for its end"
            ) from error
        yield
    finally:
        os.close(descriptor)


def _stop(number: int, frame: FrameType | None) -> None:
    # A second signal must not interrupt the cleaning up.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise Stopped


def _say(text: str) -> None:
    print(text, flush=True)
