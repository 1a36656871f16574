"""Files of a snapshot from a plain tree: a web server that knows no Hub API, or this machine.

The paths are the Hub's. huggingface_hub wants headers that such a server does not send, so each
file comes by fetch.py: resumed after a cut and after another run, proved before it has its name.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

from weights_files import regular_stat
from weights_spec import CACHE, File, Spec
from weights_transfer import Outcome

# Files at once: enough to hide the waits between small ones (our choice).
STREAMS = 4
POLL_S = 0.2


def transfer(spec: Spec, files: list[File], xet: bool, report: Callable[[int], None]) -> Outcome:
    """Fetch these files; `report` gets the bytes that lie on disk by now. Raises OSError.

    + xet: means nothing here; the signature is weights_transfer's
    """
    waiting, running = list(files), dict[str, subprocess.Popen[str]]()
    names = {file.path: file for file in files}
    try:
        while waiting or running:
            while waiting and len(running) < STREAMS:
                file = waiting.pop(0)
                running[file.path] = _start(spec, file)
            time.sleep(POLL_S)
            for path in [path for path, child in running.items() if child.poll() is not None]:
                problem = _end(spec, names[path], running.pop(path))
                if problem:
                    return Outcome("refused", problem)
            report(_bytes(spec, files))
    finally:
        for child in running.values():
            child.terminate()
            child.wait()
    return Outcome("done")


def beside(spec: Spec, file: File) -> Path:
    """Where a file is until it is whole and proved; it stays there for the next run to resume."""
    return spec.dir / CACHE / "plain" / file.path


def _start(spec: Spec, file: File) -> subprocess.Popen[str]:
    place = beside(spec, file)
    place.parent.mkdir(parents=True, exist_ok=True)
    url = f"{spec.endpoint}/{spec.repo}/resolve/{spec.commit}/{quote(file.path)}"
    proof = ["--sha256", file.sha256] if file.sha256 else ["--git-sha1", str(file.git_sha1)]
    program = str(Path(__file__).with_name("fetch.py"))
    words = [sys.executable, program, url, str(place), "--size", str(file.size), *proof]
    return subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def _end(spec: Spec, file: File, child: subprocess.Popen[str]) -> str:
    """Give a finished file its name; what is wrong otherwise."""
    told = child.communicate()[1].strip()
    if child.returncode == 0:
        target = spec.dir / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        beside(spec, file).replace(target)
        return ""
    return f"{spec.repo}: {file.path}: {told or f'its fetch ended with {child.returncode}'}"


def _bytes(spec: Spec, files: list[File]) -> int:
    found = 0
    for file in files:
        place = beside(spec, file)
        partial = place.with_name(place.name + ".partial")
        states = [regular_stat(path) for path in (spec.dir / file.path, place, partial)]
        found += next((state.st_size for state in states if state is not None), 0)
    return found
