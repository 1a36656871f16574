"""Operations that bring a bundle's files to a machine, or ask a mirror whether it has them."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pyinfra import host as current_host
from pyinfra import logger
from pyinfra.api import FunctionCommand, operation

from sparkwright import interrupts, push_library, report
from sparkwright.bundle_layout import Entry
from sparkwright.errors import SparkwrightError
from sparkwright.facts import PYTHON, ask
from sparkwright.job_watch import POLL_S, SAY_EVERY_S
from sparkwright.jobs import describe
from sparkwright.operations import Commands, as_pyinfra, failing, guarded
from sparkwright.paths import PROJECT, script
from sparkwright.preflight import GIB
from sparkwright.push_plan import files_of
from sparkwright.push_ssh import ssh_words
from sparkwright.resources import Command, Spec, State, quote
from sparkwright.sources import source_of

SHOWN = 16  # digits of a hash, as push_place.py prints them


def state_probe(place: str) -> Spec:
    """What is here, by stat stamps; the program is not installed yet, so it travels."""
    return {"kind": "run", "argv": [*PYTHON, script("push_place.py"), "state", place]}


def program(command: str, place: str, files: Sequence[Entry]) -> Command:
    """prepare or settle; the list goes through standard input."""
    rows = [[entry.path, entry.size, entry.sha256] for entry in files]
    words = (*PYTHON, script("push_place.py"), command, place)
    return Command(quote(*words), stdin=json.dumps({"files": rows}))


def missing(files: Sequence[Entry], state: State) -> tuple[list[Entry], dict[str, Any]]:
    """(files that the machine lacks or has otherwise, everything that it said).

    Raises SparkwrightError when it did not say it.
    """
    try:
        told: dict[str, Any] = json.loads(state.get("out", ""))
    except ValueError:
        why = state.get("err") or state.get("error") or "no answer"
        raise SparkwrightError(f"push: the machine cannot say what it has: {why}") from None
    have = told["have"]
    return [entry for entry in files if have.get(entry.path) != entry.sha256[:SHOWN]], told


@operation()
@guarded
def pushed(data: Mapping[str, Any]) -> Commands:
    """
    Make a machine hold exactly its part of the bundle.

    + data: the machine's pyinfra data
    """

    place = source_of(data).directory
    files = push_library.without(current_host, data, files_of(data))
    lacking, told = missing(files, ask(current_host, [state_probe(place)])[0])
    extra = sorted(told["have"].keys() - {entry.path for entry in files})
    if not lacking and not extra:
        current_host.noop(f"{len(files)} files of the bundle are here")
        return
    size = sum(entry.size for entry in lacking)
    report.drift(current_host, phrases(place, lacking, extra))
    short = size - told["arrived"] - told["free"]
    if short > 0:
        wanted = f"{size / GIB:.1f} GiB are missing, {told['free'] / GIB:.1f} GiB are free"
        what = f"{place}: {wanted}; free {short / GIB:.1f} GiB more; nothing was sent"
        report.record("problem", current_host, what)
        yield failing(what)
        return
    yield as_pyinfra(program("prepare", place, files))
    yield FunctionCommand(send, [data], {})
    yield as_pyinfra(program("settle", place, files))


def phrases(place: str, lacking: Sequence[Entry], extra: Sequence[str]) -> list[str]:
    """What differs, a line for each part of the bundle: files may be thousands."""
    lines = []
    for top in sorted({entry.path.split("/", 1)[0] for entry in lacking}):
        those = [entry for entry in lacking if entry.path.split("/", 1)[0] == top]
        size = sum(entry.size for entry in those) / 1e6
        more = f" and {len(those) - 1} more" if len(those) > 1 else ""
        lines.append(f"{place}: lacks {those[0].path}{more} ({size:.1f} MB)")
    if extra:
        lines.append(f"{place}: {len(extra)} files no longer belong here, such as {extra[0]}")
    return lines


def send(state: Any, host: Any, data: Mapping[str, Any]) -> bool:
    """Send what is still missing; True when everything arrived."""
    place = source_of(data).directory
    try:
        files = push_library.without(host, data, files_of(data))
        lacking, _ = missing(files, ask(host, [state_probe(place)])[0])
    except (ConnectionError, SparkwrightError) as error:
        return _failed(host, str(error))
    if not lacking:
        return True
    remote = quote(*PYTHON, script("push_receive.py"), f"{place}/.sparkwright/incoming")
    job = {
        "argv": [*ssh_words(data), remote],
        "top": str(data["artifacts_path"]),
        "files": [[entry.path, entry.size, entry.sha256] for entry in lacking],
    }
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        with out.open("w") as stdout:
            child = subprocess.Popen(
                [sys.executable, "-m", "sparkwright.push_send"],
                cwd=PROJECT, stdin=subprocess.PIPE, stdout=stdout, text=True,
            )  # fmt: skip
        assert child.stdin  # noqa: S101 - Popen was given a pipe
        child.stdin.write(json.dumps(job))
        child.stdin.close()
        return _follow(host, child, out)


def _follow(host: Any, child: subprocess.Popen[str], out: Path) -> bool:
    """Show progress until it ends. From a file, so that nothing here waits on a pipe."""
    said, at = "", time.monotonic()
    try:
        while child.poll() is None:
            line = describe(_last(out))
            if line != said and time.monotonic() - at >= SAY_EVERY_S:
                logger.info(f"{host.print_prefix}push: {line}")
                said, at = line, time.monotonic()
            if interrupts.came():
                return False
            time.sleep(POLL_S / 5)
    finally:
        if child.poll() is None:
            child.terminate()
            child.wait()
    last = _last(out)
    if child.returncode:
        return _failed(host, str(last.get("error") or "it ended without a word"))
    told = f"{last['sent'] / 1e6:.1f} MB sent, {last['skipped'] / 1e6:.1f} MB were there"
    logger.info(f"{host.print_prefix}push: {told}")
    return True


def _last(out: Path) -> dict[str, Any]:
    lines = [line for line in out.read_text().splitlines(keepends=True) if line.endswith("\n")]
    found: dict[str, Any] = json.loads(lines[-1]) if lines else {}
    return found


def _failed(host: Any, why: str) -> bool:
    report.record("problem", host, f"push: {why}")
    logger.error(f"{host.print_prefix}push: {why}")
    return False


@operation()
@guarded
def mirrored(url: str, lock_sha256: str) -> Commands:
    """
    Stop this machine, before anything is touched, when the mirror is not the bundle of this lock.

    + url: of the mirror; lock_sha256: of the fleet's lock file
    """

    words = [*PYTHON, script("push_mirror.py"), url, lock_sha256]
    seen = ask(current_host, [{"kind": "run", "argv": words}])[0]
    if seen.get("rc") == 0:
        current_host.noop("the mirror has the bundle of this lock")
        return
    why = (seen.get("out") or seen.get("err") or "no answer").strip().splitlines()[-1]
    report.record("problem", current_host, why)
    yield failing(why)
