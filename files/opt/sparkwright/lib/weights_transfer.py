"""One attempt of a transfer: start the child, watch its bytes, kill it when they stop coming."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from weights_files import hub_home, incomplete_files, regular_stat
from weights_spec import File, Spec

POLL_S = 0.5
# How long a child may take to end after SIGTERM before SIGKILL; nothing of it is kept anyway.
GRACE_S = 5.0
# Files at once: huggingface_hub's own default (2.4.0). With other machines waiting, fewer: a file
# can be passed on when it is whole, so eight halves help nobody (our choice).
FILES, SHARED_FILES = 8, 3


@dataclass(frozen=True)
class Outcome:
    """How one attempt ended: "done", "stalled", or the kind that the child named."""

    kind: str
    message: str = ""


def read_token(spec: Spec) -> str | None:
    """The Hub token, or None. Raises OSError when the file cannot be read."""
    if spec.token_file is None:
        return None
    return spec.token_file.read_text(encoding="utf-8").strip() or None


def transfer(spec: Spec, files: list[File], xet: bool, report: Callable[[int], None]) -> Outcome:
    """Run the hub client for these files; `report` gets the bytes that lie on disk by now.

    "done" only means that the client said so. Raises OSError when it cannot be started.
    """
    home = hub_home(spec)
    home.mkdir(parents=True, exist_ok=True)
    token = read_token(spec)
    log = home / "child.log"
    with _pipe() as (reader, writer), log.open("w", encoding="utf-8") as output:
        child = _start(spec, home, xet, output, writer)
        try:
            _send(child, _job(spec, files, writer, token))
            stalled = _watch(spec, files, child, report)
        finally:
            _end(child)
        if stalled:
            return Outcome("stalled", f"no new byte for {spec.stall_s:g} s")
        return _outcome(reader, log, token, child.returncode)


@contextlib.contextmanager
def _pipe() -> Iterator[tuple[int, int]]:
    """Both ends of a pipe whose reader never waits."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    try:
        yield reader, writer
    finally:
        os.close(reader)
        os.close(writer)


def _start(
    spec: Spec, home: Path, xet: bool, output: IO[str], writer: int
) -> subprocess.Popen[str]:
    script = Path(__file__).with_name("weights_child.py")
    return subprocess.Popen(
        [spec.hub_python, "-I", str(script)],
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=subprocess.STDOUT,
        text=True,
        env=_environment(home, xet),
        start_new_session=True,
        pass_fds=(writer,),
    )


def _environment(home: Path, xet: bool) -> dict[str, str]:
    """The child's environment: the machine's proxy settings, none of its Hub settings.

    Setting HF_HUB_DISABLE_XET inside Python after the import does nothing (xet-core#869), so it
    has to be here.
    """
    names = ("HF_", "HUGGING", "TRANSFORMERS_")
    environment = {key: value for key, value in os.environ.items() if not key.startswith(names)}
    environment |= {
        "HF_HOME": str(home),
        "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_DISABLE_UPDATE_CHECK": "1",
    }
    if not xet:
        environment["HF_HUB_DISABLE_XET"] = "1"
    return environment


def _job(spec: Spec, files: list[File], result: int, token: str | None) -> str:
    return json.dumps(
        {
            "repo": spec.repo,
            "commit": spec.commit,
            "endpoint": spec.endpoint,
            "dir": str(spec.dir),
            "names": [file.path for file in files],
            "token": token,
            "workers": SHARED_FILES if spec.spread else FILES,
            "result": result,
            "parent": os.getpid(),
        }
    )


def _send(child: subprocess.Popen[str], job: str) -> None:
    if child.stdin is None:
        raise OSError("the transfer process has no input")
    try:
        child.stdin.write(job)
        child.stdin.close()
    except BrokenPipeError:
        print("the transfer process ended before it read its job", file=sys.stderr)


def _watch(
    spec: Spec, files: list[File], child: subprocess.Popen[str], report: Callable[[int], None]
) -> bool:
    """Wait for the child; True when its bytes stood still for too long."""
    seen: tuple[int, ...] = ()
    since = time.monotonic()
    while child.poll() is None:
        now = time.monotonic()
        done, state = _bytes(spec, files)
        report(done)
        if state != seen:
            seen, since = state, now
        elif now - since > spec.stall_s:
            return True
        time.sleep(min(POLL_S, spec.stall_s / 4))
    return False


def _bytes(spec: Spec, files: list[File]) -> tuple[int, tuple[int, ...]]:
    """Bytes on disk, and a state that changes whenever anything is written.

    Blocks are counted, not sizes: a client may reserve the whole size first.
    """
    finished = [regular_stat(spec.dir / file.path) for file in files]
    partial = [regular_stat(path) for path in incomplete_files(spec)]
    found = [state for state in [*finished, *partial] if state is not None]
    done = sum(min(state.st_size, state.st_blocks * 512) for state in found)
    sizes = sum(state.st_size for state in found)
    return done, (done, sizes, max((state.st_mtime_ns for state in found), default=0))


def _end(child: subprocess.Popen[str]) -> None:
    """End the child and everything it started."""
    if child.poll() is not None:
        return
    os.killpg(child.pid, signal.SIGTERM)
    try:
        child.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def _outcome(result: int, log: Path, token: str | None, code: int) -> Outcome:
    try:
        value = json.loads(os.read(result, 65536))
        return Outcome(str(value["kind"]), _redact(str(value["message"]), token))
    except (OSError, ValueError, KeyError):
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        last = lines[-1] if lines else "it printed nothing"
        # A negative code is a signal (memory pressure, for example) and worth another try.
        kind = "network" if code < 0 else "broken"
        return Outcome(kind, _redact(f"the transfer process ended with {code}: {last}", token))


def _redact(text: str, token: str | None) -> str:
    return text.replace(token, "<token>") if token else text
