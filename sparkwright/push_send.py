"""Sends files of a bundle over OpenSSH: resumed after a cut, hashed as they arrive.

    python -m sparkwright.push_send     on standard input one JSON object: argv (ssh and the remote
                                        command), top, files: [[path, size, sha256], …]

Prints lines of JSON: {"done_bytes", "total_bytes", "rate_bps", "eta_s"} once a second, and at the
end {"sent", "skipped"} or {"error"}. A process of its own, so that machines do not wait for one
another in pyinfra's one thread.

Not rsync: it proves with its own checksums, and the sha256 would be a second pass over everything
on the machine; here it is taken from the stream. Content is named by its hash, so what a cut left
can be appended to without comparing, and the hash of the whole decides (rsync's --append without
the --append-verify). It needs ssh here and python3 there.

One connection is bound by one core at either end. So when it is faster than a slow link or disk
lets it be, others take files from the same queue, where both ends have cores for them; a single
file stays with one of them, as its sha256 is taken in order.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Final

from sparkwright.push_sending import PushError, Sending, tell
from sparkwright.push_stream import Queue, Stream, frames_of

# Connections at most, and with two cores at either end. On a computer with 16 cores, 2 moved 489
# MB/s where rsync, which has one, moved 616, and 4 moved 731 beside 697 (benchmarks/loopback.py).
STREAMS: Final = 4
STREAMS_OF_TWO_CORES: Final = 2
WORTH: Final = 64 << 20  # bytes for which no further connection is opened (our choice)
LOOK_S: Final = 0.1


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
    """Send everything once; the contents that were resumed. Raises PushError."""
    token = os.urandom(8).hex()  # by which the machine knows connections of one push
    streams = [Stream([*argv, token], sending)]
    try:
        hello = streams[0].hello()
        queue = Queue(frames_of(wanted, hello, sending))
        most = _most(int(hello.get("cores", 1)))
        with ThreadPoolExecutor(most) as pool:
            running = {pool.submit(streams[0].run, queue)}
            try:
                while running:
                    done, running = wait(running, LOOK_S, FIRST_COMPLETED)
                    for future in done:
                        future.result()
                    sending.say()
                    fast = len(streams) < most and sending.fast(len(streams))
                    if fast and queue.left >= WORTH:
                        streams.append(Stream([*argv, token, str(len(streams))], sending))
                        running.add(pool.submit(streams[-1].help, queue))
            finally:
                for stream in streams:  # before the pool waits for its threads
                    stream.end()
    finally:
        streams[0].end()
    sending.say(force=True)
    return {sha256 for sha256, size in hello["have"].items() if size}


def _most(cores: int) -> int:
    """Connections at most, with so many cores on the machine."""
    return max(STREAMS_OF_TWO_CORES, min(STREAMS, cores, os.cpu_count() or 1))


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
