"""One push of files to one machine: a process beside this one, followed until it ends."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pyinfra import logger

from sparkwright import interrupts, report
from sparkwright.bundle_layout import Entry
from sparkwright.facts import PYTHON
from sparkwright.job_watch import POLL_S, SAY_EVERY_S
from sparkwright.jobs import describe
from sparkwright.paths import PROJECT, script
from sparkwright.push_ssh import ssh_words
from sparkwright.resources import quote
from sparkwright.sources import source_of


def sent(host: Any, data: Mapping[str, Any], files: Sequence[Entry]) -> bool:
    """Send these files; True when everything arrived."""
    incoming = f"{source_of(data).directory}/.sparkwright/incoming"
    remote = quote(*PYTHON, script("push_receive.py"), incoming)
    job = {
        "argv": [*ssh_words(data), remote],
        "top": str(data["artifacts_path"]),
        "files": [[entry.path, entry.size, entry.sha256] for entry in files],
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
        return failed(host, str(last.get("error") or "it ended without a word"))
    told = f"{last['sent'] / 1e6:.1f} MB sent, {last['skipped'] / 1e6:.1f} MB were there"
    logger.info(f"{host.print_prefix}push: {told}")
    return True


def _last(out: Path) -> dict[str, Any]:
    lines = [line for line in out.read_text().splitlines(keepends=True) if line.endswith("\n")]
    found: dict[str, Any] = json.loads(lines[-1]) if lines else {}
    return found


def failed(host: Any, why: str) -> bool:
    """Say why a push ended; False, for pyinfra."""
    report.record("problem", host, f"push: {why}")
    logger.error(f"{host.print_prefix}push: {why}")
    return False
