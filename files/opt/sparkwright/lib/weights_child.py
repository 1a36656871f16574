"""The transfer itself: huggingface_hub in a process of its own, killed without regret.

Reads one JSON job on standard input (so that the token is neither in argv nor in the
environment) and writes {"kind", "message"} to the pipe that the job's `result` numbers: a file
could not be written on a full disk, which is one of the things to tell. It runs with the Python
of the hub client's venv; `weights_transfer.py` starts and watches it, and never trusts it.
"""

from __future__ import annotations

import ctypes
import errno
import glob
import json
import os
import signal
import sys
from typing import Any

PR_SET_PDEATHSIG = 1  # linux/prctl.h


def main() -> int:
    """Run one transfer. Exit code 0 when the hub client reported success."""
    job = json.load(sys.stdin)
    _die_with(int(job["parent"]))
    result = int(job["result"])
    try:
        _download(job)
    except Exception as error:  # every failure is told, whatever the client raises
        kind, message = _explain(error, job)
        _tell(result, kind, message)
        return 1
    _tell(result, "done", "")
    return 0


def _tell(result: int, kind: str, message: str) -> None:
    # Short enough for a pipe that nobody reads yet (64 KiB, pipe(7)).
    os.write(result, json.dumps({"kind": kind, "message": message[:4000]}).encode())


def _die_with(parent: int) -> None:
    """Die when the agent dies, even by SIGKILL: two writers in one directory would follow."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)


def _download(job: dict[str, Any]) -> None:
    from huggingface_hub import HfApi, snapshot_download

    token = job["token"] or False  # False: no token of this machine's user is picked up
    # snapshot_download 2.4.0 returns success for a directory with files in it when the Hub
    # refuses it; this question raises instead.
    HfApi(endpoint=job["endpoint"], token=token).model_info(job["repo"], revision=job["commit"])
    snapshot_download(
        job["repo"],
        revision=job["commit"],
        local_dir=job["dir"],
        # Names, not patterns: a "[" in a name must match itself.
        allow_patterns=[glob.escape(name) for name in job["names"]],
        endpoint=job["endpoint"],
        token=token,
        max_workers=int(job["workers"]),
    )


def _explain(error: BaseException, job: dict[str, Any]) -> tuple[str, str]:
    """Sort a failure: "gated", "token", "missing" and "disk" are final, "network" is retried."""
    from huggingface_hub import errors

    where = f"{job['endpoint']}/{job['repo']}"
    for cause in _causes(error):
        if isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT):
            return "disk", f"{job['dir']}: no space left while writing"
        status = getattr(getattr(cause, "response", None), "status_code", None)
        if isinstance(cause, errors.GatedRepoError) or status == 403:
            return "gated", (
                f"{where}: the Hub answered {status}: the repository is gated or the token lacks "
                f"access; accept its terms at {where} and give a token of that account"
            )
        if isinstance(cause, errors.RevisionNotFoundError):
            return "missing", f"{where}: there is no revision {job['commit']}"
        if isinstance(cause, errors.RemoteEntryNotFoundError):
            return "missing", f"{where}: a file of the lock is not there at {job['commit']}"
        if status == 401:
            given = "does not accept the token" if job["token"] else "wants a token"
            return "token", (
                f"{where}: the Hub answered 401: it {given}, or there is no such repository; "
                "check the name and the token"
            )
        if status == 404 or isinstance(cause, errors.RepositoryNotFoundError):
            return "missing", (
                f"{where}: the Hub answered 404: no such repository or revision for this token"
            )
    first = str(error).strip().splitlines()[0:1]
    return "network", f"{where}: {type(error).__name__}: {first[0] if first else ''}"


def _causes(error: BaseException | None) -> list[BaseException]:
    found: list[BaseException] = []
    while error is not None and error not in found:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found


if __name__ == "__main__":
    sys.exit(main())
