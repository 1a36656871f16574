"""Takes files that the laptop sends on standard input, and names each only when its hash is right.

    push_receive.py DIR TOKEN [N]   DIR: the incoming directory, this account's own; TOKEN: of the
                                    push; N: which of its further connections this is, from 1

Travels as text in the ssh command. It prints a line with what is here already and how many cores;
then it reads frames (a line of JSON {sha256, size, offset}, then size - offset bytes) and prints a
line for each: {"done"}, {"wrong", "found"} or {"failed", "why", "errno"}. A file is
DIR/<sha256>.part until its hash is right, so a cut costs nothing before it, and versions never mix.
Exit codes: 0 all frames taken, 1 failed (the last line says why), 3 another push is at work.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import select
import socket
import stat
import struct
import sys
from pathlib import Path
from typing import BinaryIO, TextIO

CHUNK = 1 << 20
# The laptop sends all the time: after this it is gone, and so are we. Less than the 30 s after
# which its ssh gives up (push_ssh.py), so that its next push finds the lock free.
SILENCE_S = 25.0
BUSY_EXIT = 3


class Gone(Exception):
    """The laptop stopped sending."""


class Input:
    """Standard input with a limit on silence; header lines and pieces out of one fixed buffer.

    Fixed: a new one of this size for each read costs much more than the read. No second thread
    for hash and write: on two cores, which ssh and sshd fill, it was slower (measured); a second
    connection of the push is a second process here.
    """

    def __init__(self) -> None:
        self.buffer = bytearray(CHUNK)
        self.view = memoryview(self.buffer)
        self.start = self.end = 0
        self.socket: socket.socket | None = None
        if stat.S_ISSOCK(os.fstat(0).st_mode):  # what OpenSSH's sshd gives, without a terminal
            self.socket = socket.socket(fileno=os.dup(0))
            # Not settimeout(): that would make standard output non-blocking as well.
            limit = struct.pack("ll", int(SILENCE_S), 0)
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)

    def _more(self, at: int, to: int, full: bool = False) -> int:
        """Read into a part of the buffer; bytes that came, 0 at the end.

        + full: wait until the part is full; fewer may come all the same. sshd hands over some
          30 kB at a time, so the kernel and not this program gathers them.
        """
        place = self.view[at:to]
        if self.socket:
            try:
                return self.socket.recv_into(place, 0, socket.MSG_WAITALL if full else 0)
            except BlockingIOError:
                raise Gone(f"nothing came for {SILENCE_S:g} s") from None
        if not select.select([0], [], [], SILENCE_S)[0]:
            raise Gone(f"nothing came for {SILENCE_S:g} s")
        return os.readv(0, [place])

    def line(self) -> bytes:
        """The next line; b"" at the end. It is short: a header."""
        rest = bytes(self.view[self.start : self.end])
        self.view[: len(rest)] = rest
        self.start, self.end = 0, len(rest)
        while (place := self.buffer.find(b"\n", 0, self.end)) < 0:
            came = self._more(self.end, CHUNK)
            if not came:
                return b""
            self.end += came
        self.start = place + 1
        return bytes(self.view[:place])

    def piece(self, at_most: int) -> memoryview:
        """Some bytes, good until the next call. Raises Gone at the end."""
        if self.start == self.end:
            self.start = self.end = 0
            wanted = min(at_most, CHUNK)
            while self.end < wanted:
                came = self._more(self.end, wanted, full=True)
                self.end += came
                if not came:
                    break
            if not self.end:
                raise Gone("the connection ended")
        first = self.start
        self.start = min(self.end, first + at_most)
        return self.view[first : self.start]


def say(**what: object) -> None:
    """A line for the laptop."""
    print(json.dumps(what), flush=True)


def main(argv: list[str]) -> int:
    """Take everything that comes; see the module's docstring."""
    top = Path(argv[0])
    lock = locked(top, *argv[1:])
    if lock is None:
        say(busy=True)
        return BUSY_EXIT
    say(have={p.name.removesuffix(".part"): p.stat().st_size for p in top.glob("*.part")},
        whole=[p.name for p in top.iterdir() if len(p.name) == 64],
        cores=os.cpu_count())  # fmt: skip
    frame: dict[str, object] = {}
    try:
        source = Input()
        while line := source.line():
            frame = json.loads(line)
            take(top, frame, source)
    except (OSError, Gone, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        say(failed=frame.get("sha256", ""), why=why, errno=getattr(error, "errno", None))
        return 1
    finally:
        lock.close()
    return 0


def locked(top: Path, token: str, number: str = "") -> TextIO | None:
    """The lock of a connection; None when another push is at work.

    The first connection writes its token and then looks for further ones of an earlier push; a
    further one takes its own lock and then compares the token. So one of the two sees the other.
    """
    first = top / "lock"
    lock = held(top / f"lock{number}")
    if lock is None:
        return None
    if number:
        return lock if first.read_text() == token else None
    lock.truncate(0)
    lock.write(token)
    lock.flush()
    return lock if all(held(path) for path in top.glob("lock?*")) else None


def held(path: Path) -> TextIO | None:
    """An open lock file, or None when another process holds it."""
    lock = path.open("a+")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        return None
    return lock


def take(top: Path, frame: dict[str, object], source: Input) -> None:
    """One file. Raises OSError or Gone; what came stays for the next push."""
    sha256, size, offset = str(frame["sha256"]), int(str(frame["size"])), int(str(frame["offset"]))
    part = top / f"{sha256}.part"
    with part.open("r+b" if offset else "wb", buffering=0) as file:
        file.truncate(offset)
        found = hashed(file, offset)
        left = size - offset
        while left:
            piece = source.piece(left)
            write(file, piece)
            found.update(piece)
            left -= len(piece)
    if found.hexdigest() == sha256:
        part.rename(top / sha256)
        say(done=sha256)
    else:
        part.unlink()
        say(wrong=sha256, found=found.hexdigest())


def hashed(file: BinaryIO, length: int) -> hashlib._Hash:
    """The hash of what lies there already; the file's position is behind it afterwards."""
    found = hashlib.sha256()
    while length:
        piece = file.read(min(length, CHUNK))
        found.update(piece)
        length -= len(piece)
    return found


def write(file: BinaryIO, view: memoryview) -> None:
    """All of it: a raw write may take a part."""
    while view:
        view = view[file.write(view) :]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
