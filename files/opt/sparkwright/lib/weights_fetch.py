"""The attempts of a transfer: which failures end the job, which are tried again, and how."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

import weights_peers
import weights_plain
from weights_files import regular_stat, remove_entry, remove_stale
from weights_hash import Hashes, hash_many
from weights_progress import Progress
from weights_spec import File, Spec
from weights_state import works
from weights_transfer import Outcome, transfer

# Plain HTTP ends at 50 GB a file (huggingface_hub 2.4.0, MAX_HTTP_DOWNLOAD_SIZE).
MAX_HTTP_BYTES = 50 * 1000 * 1000 * 1000
# Attempts in a row that bring no new file before the job gives up (our choice: with 5 s before
# the first and doubling this rides out an outage of about a minute; the laptop can run it again).
MAX_ATTEMPTS = 5
# A file that arrives wrong twice is wrong at the source, or the lock is.
MAX_BAD = 2

Say = Callable[[str], None]


class JobError(Exception):
    """The job cannot be done; the message is for the user."""


class Attempts:
    """Decides after each attempt whether and how to go on."""

    def __init__(self, spec: Spec, say: Say) -> None:
        self._spec = spec
        self._say = say
        self._failed = 0
        self.xet = True

    def after(self, outcome: Outcome, left: list[File], moved: bool) -> float:
        """Seconds to wait before the next attempt. Raises JobError when there is none.

        + left: files still wanted
        + moved: the attempt brought at least one good file
        """
        if outcome.kind not in ("stalled", "network", "done"):
            raise JobError(outcome.message)
        self._failed = 1 if moved else self._failed + 1
        message = outcome.message
        if outcome.kind == "done":
            names = ", ".join(file.path for file in left[:3])
            message = f"the hub client reported success without {len(left)} files ({names}, …)"
        if self._failed >= MAX_ATTEMPTS or (outcome.kind == "done" and self._failed > 1):
            raise JobError(f"{message}; gave up after {self._failed} attempts; run it again")
        how = self._without_xet(left) if outcome.kind == "stalled" else ""
        self._say(f"{message}; trying again{how}")
        if outcome.kind == "stalled":
            return 0.0
        return self._spec.retry_wait_s * float(2 ** (self._failed - 1))

    def _without_xet(self, left: list[File]) -> str:
        """Switch xet off after a stall (xet-core#898), where plain HTTP can carry the files."""
        if any(file.size > MAX_HTTP_BYTES for file in left):
            return " with xet: a file is larger than plain HTTP carries"
        self.xet = False
        return " with HF_HUB_DISABLE_XET=1"


def fetch(spec: Spec, files: list[File], progress: Progress, say: Say) -> dict[str, Hashes]:
    """Fetch the files and verify each; returns their hashes. Raises JobError or OSError."""
    hashes = weights_peers.receive(spec, files, progress, say) if spec.spread else {}
    files = [file for file in files if file.path not in hashes]
    if not files:
        return hashes
    bad: Counter[str] = Counter()
    attempts = Attempts(spec, say)
    left = files
    count = len(spec.files)
    say(f"{spec.repo}@{spec.commit}: fetching {len(left)} of {count} files, {_size(left)} bytes")
    while True:
        have = spec.total_bytes - _size(left)
        progress.phase("fetch", spec.total_bytes, have, f"{len(left)} of {count} files to come")
        move = weights_plain.transfer if spec.plain else transfer
        outcome = move(spec, left, attempts.xet, progress.above(have))
        remove_stale(spec)
        arrived = _arrived(spec, left, progress, bad)
        hashes |= arrived
        left = [file for file in left if file.path not in hashes]
        if not left:
            return hashes
        time.sleep(attempts.after(outcome, left, bool(arrived)))


def _size(files: list[File]) -> int:
    return sum(file.size for file in files)


def _arrived(
    spec: Spec, files: list[File], progress: Progress, bad: Counter[str]
) -> dict[str, Hashes]:
    """Hash what lies there now, keep what is right, remove what is not."""
    there = [file for file in files if regular_stat(spec.dir / file.path) is not None]
    progress.phase("verify", _size(there))
    found = hash_many(works(spec, there), progress.add)
    right = {}
    for file in there:
        hashes = found[spec.dir / file.path]
        if hashes.matches(file.expected):
            right[file.path] = hashes
            continue
        remove_entry(spec, file)
        bad[file.path] += 1
        if bad[file.path] >= MAX_BAD:
            raise JobError(
                f"{spec.repo}: {file.path} arrived {MAX_BAD} times with sha256:{hashes.sha256}, "
                f"the lock says {file.expected}; if the repository is right, run sparkwright lock"
            )
    return right
