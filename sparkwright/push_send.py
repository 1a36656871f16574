"""Sends files of a bundle over OpenSSH: one stream, resumed after a cut, hashed as it arrives.

    python -m sparkwright.push_send     on standard input one JSON object: argv (ssh and the remote
                                        command), top, files: [[path, size, sha256], …]

Prints lines of JSON: {"done_bytes", "total_bytes", "rate_bps", "eta_s"} once a second, and at the
end {"sent", "bytes"} or {"error"}. A process of its own, so that machines do not wait for one
another in pyinfra's one thread.

Not rsync: it proves with its own checksums, and the sha256 would be a second pass over everything
on the machine; here it is taken from the stream. Content is named by its hash, so what a cut left
can be appended to without comparing, and the hash of the whole decides (rsync's --append without
the --append-verify). It needs ssh here and python3 there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, Final

from sparkwright.push_sending import PushError, Sending, tell

CHUNK: Final = 1 << 20
PIPE_BYTES: Final = 1 << 20  # Linux; a pipe has 64 KiB else (pipe(7))
BUSY: Final = "another push to this machine is under way; wait for its end, then run again"


def push(argv: Sequence[str], top: Path, files: Sequence[tuple[str, int, str]]) -> Sending:
    """Send files; each content once. Raises PushError."""
    contents = {sha256: (path, size) for path, size, sha256 in files}
    total = sum(size for _, size in contents.values())
    sending = Sending(top, {sha: path for sha, (path, _) in contents.items()}, total)
    wanted = [(path, size, sha256) for sha256, (path, size) in contents.items()]
    resumed = _once(argv, sending, wanted)
    again = [row for row in wanted if row[2] in sending.wrong and row[2] in resumed]
    if again:  # the bytes that an earlier push left were wrong: whole this time
        for row in again:
            del sending.wrong[row[2]]
        _once(argv, sending, again)
    if sending.wrong:
        sha256, found = next(iter(sending.wrong.items()))
        more = f" (and {len(sending.wrong) - 1} more)" if len(sending.wrong) > 1 else ""
        raise PushError(
            f"{sending.names[sha256]}{more}: arrived with sha256 {found}, the manifest says "
            f"{sha256}; the bundle's file is damaged: sparkwright bundle verify {top}"
        )
    return sending


def _once(
    argv: Sequence[str], sending: Sending, wanted: Sequence[tuple[str, int, str]]
) -> set[str]:
    """One connection; the contents that were resumed. Raises PushError."""
    try:
        ssh = subprocess.Popen(  # noqa: S603 - ssh, with words of ours
            list(argv), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
    except FileNotFoundError as error:
        raise PushError("ssh: is not installed here; install OpenSSH's client") from error
    assert ssh.stdin is not None  # noqa: S101 - Popen was given pipes
    assert ssh.stdout is not None  # noqa: S101
    _widen(ssh.stdin)
    try:
        hello = json.loads(ssh.stdout.readline() or b"{}")
        if hello.get("busy"):
            raise PushError(BUSY)
        if "have" not in hello:
            raise PushError(_why(ssh, "the machine did not take the files"))
        reader = threading.Thread(target=sending.listen, args=(ssh.stdout,), daemon=True)
        reader.start()
        path = _stream(ssh.stdin, sending, wanted, hello)
        status = ssh.wait()
        reader.join()
        if sending.failed or status or path:
            why = sending.failed or f"{path}: {_why(ssh, 'the connection was lost')}"
            raise PushError(f"{why}; what came is kept, run it again")
    finally:
        if ssh.poll() is None:
            ssh.terminate()
            ssh.wait()
    return {sha256 for sha256, size in hello["have"].items() if size}


def _why(ssh: subprocess.Popen[bytes], otherwise: str) -> str:
    """The last line that ssh wrote."""
    assert ssh.stderr  # noqa: S101 - Popen was given a pipe
    lines = ssh.stderr.read().decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else otherwise


def _stream(
    out: IO[bytes], sending: Sending, wanted: Sequence[tuple[str, int, str]], hello: dict[str, Any]
) -> str:
    """Write the frames; the path at which the machine stopped taking, or nothing."""
    path = ""
    try:
        for path, size, sha256 in wanted:
            if sha256 in hello["whole"]:
                sending.skipped += size
                continue
            have = int(hello["have"].get(sha256, 0))
            offset = have if have <= size and sha256 not in sending.wrong else 0
            _send_file(out, sending, sending.top / path, (sha256, size, offset))
        path = ""
        out.close()
    except BrokenPipeError:
        return path or "the last file"
    except OSError as error:
        raise PushError(f"{error.filename or path}: {error.strerror}") from error
    sending.say(force=True)
    return ""


def _send_file(out: IO[bytes], sending: Sending, path: Path, frame: tuple[str, int, int]) -> None:
    sha256, size, offset = frame
    header = {"sha256": sha256, "size": size, "offset": offset}
    with path.open("rb", buffering=0) as file:
        if file.seek(0, 2) != size:
            raise PushError(f"{path}: has not {size} bytes; fill the bundle: sparkwright bundle")
        file.seek(offset)
        sending.skipped += offset
        out.write(json.dumps(header).encode() + b"\n")
        out.flush()
        left = size - offset
        while left:
            moved = _move(file, out, min(left, CHUNK))
            if not moved:
                raise PushError(f"{path}: became shorter while it was read")
            left -= moved
            sending.sent += moved
            sending.say()


def _move(file: IO[bytes], out: IO[bytes], at_most: int) -> int:
    """Bytes from the file into the pipe; Linux moves them without a copy here (sendfile(2))."""
    if sys.platform == "linux":
        return os.sendfile(out.fileno(), file.fileno(), None, at_most)
    piece = file.read(at_most)
    out.write(piece)
    return len(piece)


def _widen(pipe: IO[bytes]) -> None:
    """A larger pipe where the system has that: fewer turns between the two processes."""
    import fcntl

    if hasattr(fcntl, "F_SETPIPE_SZ"):
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)


def main() -> int:
    """Run one push; see the module's docstring."""
    job = json.load(sys.stdin)
    try:
        done = push(job["argv"], Path(job["top"]), [(p, s, h) for p, s, h in job["files"]])
    except PushError as error:
        tell(error=str(error))
        return 1
    tell(sent=done.sent, skipped=done.skipped)
    return 0


if __name__ == "__main__":
    sys.exit(main())
