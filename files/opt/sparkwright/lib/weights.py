"""Weights on the machine: fetch a model's files and prove them, or say what is missing.

    weights.py fetch SPEC.json [--deep]    exit 0 only when every file is there with its hash
    weights.py status SPEC.json [--deep]   JSON on standard output, in milliseconds

`fetch` runs as the service user in a unit of its own, so a dropped SSH session does not touch it.
Exit codes: 0 done, 1 failed (one line says why), 2 the spec cannot be used, 143 stopped by
SIGTERM. `status` exits 0 whenever it could answer; the answer is in the JSON:

    {"ok", "manifest_digest", "missing", "changed", "leftovers": {name: bytes},
     "missing_bytes", "message", "refused": {path in a library: why it is not used}}

+ missing: not there as a regular file; changed: there, but not what was verified last
+ missing_bytes: bytes that a fetch has to bring, as far as known without hashing
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from weights_fetch import JobError
from weights_files import remove_stale
from weights_job import run, told
from weights_progress import Progress
from weights_spec import LOCK, Spec, SpecError, load_spec
from weights_state import status

SPEC_EXIT = 2
STOPPED_EXIT = 128 + signal.SIGTERM


class Stopped(BaseException):
    """SIGTERM or SIGINT came. Not an Exception: nothing but the end of the program handles it."""


def main(argv: list[str]) -> int:
    """Run one command; see the module's docstring."""
    parser = argparse.ArgumentParser(prog="weights.py", description="fetch and prove weights")
    parser.add_argument("command", choices=("fetch", "status"))
    parser.add_argument("spec", type=Path, help="the job as JSON")
    parser.add_argument("--deep", action="store_true", help="hash every file, believe no stamp")
    options = parser.parse_args(argv)
    try:
        spec = load_spec(options.spec)
    except SpecError as error:
        print(error, file=sys.stderr)
        return SPEC_EXIT
    if options.command == "fetch":
        return _fetch(spec, options.deep)
    try:
        print(json.dumps(status(spec, options.deep), sort_keys=True))
    except OSError as error:
        print(f"weights: {_why(error)}", file=sys.stderr)
        return 1
    return 0


def _fetch(spec: Spec, deep: bool) -> int:
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
        return _failed(progress, "; ".join(filter(None, (_why(error), told(spec)))))
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


def _why(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename:
        user = f"uid {os.geteuid()}"
        return f"{error.filename}: {error.strerror}; it must be in order for {user}"
    return str(error)


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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
