"""One SSH connection of a push, and the queue that its connections take files from."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Sequence
from typing import IO, Any, Final, NamedTuple

from sparkwright.push_sending import PushError, Sending

CHUNK: Final = 1 << 20
# A pipe wakes its writer for each piece that ssh takes out, a socket when half is empty (socket(7),
# SO_SNDBUF): the push took 3.75 s where it took 4.09 with a pipe of 1 MiB, rsync 3.99, on two cores
# for both ends. The system may allow less.
SOCKET_BYTES: Final = 1 << 20
BUSY: Final = "another push to this machine is under way; wait for its end, then run again"


class Frame(NamedTuple):
    """A content that travels from an offset on.

    + path: below the bundle; size, offset: bytes
    """

    path: str
    size: int
    sha256: str
    offset: int


class Queue:
    """Frames that no connection has taken yet: the longest first, so that all end together."""

    def __init__(self, frames: Sequence[Frame]) -> None:
        self._frames = deque(sorted(frames, key=lambda one: one.offset - one.size))
        self._lock = threading.Lock()
        self.left = sum(one.size - one.offset for one in frames)

    def take(self) -> Frame | None:
        """The next one; None at the end."""
        with self._lock:
            if not self._frames:
                return None
            frame = self._frames.popleft()
            self.left -= frame.size - frame.offset
            return frame


class Stream:
    """One connection.

    + argv: ssh with the remote command; raises PushError when there is no ssh
    """

    def __init__(self, argv: Sequence[str], sending: Sending) -> None:
        self.sending = sending
        self.into, far = socket.socketpair()
        with far:
            for end in (self.into, far):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BYTES)
            try:
                self.ssh = subprocess.Popen(  # noqa: S603 - ssh, with words of ours
                    list(argv), stdin=far.fileno(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
                )
            except FileNotFoundError as error:
                self.into.close()
                raise PushError("ssh: is not installed here; install OpenSSH's client") from error
        assert self.ssh.stdout is not None  # noqa: S101 - Popen was given a pipe
        self.answers = self.ssh.stdout

    def hello(self) -> dict[str, Any]:
        """What the machine says first. Raises PushError when it takes nothing."""
        said: dict[str, Any] = json.loads(self.answers.readline() or b"{}")
        if said.get("busy"):
            raise PushError(BUSY)
        if "have" not in said:
            raise PushError(self._why("the machine did not take the files"))
        return said

    def run(self, queue: Queue) -> None:
        """Send what the queue gives until it is empty. Raises PushError."""
        reader = threading.Thread(target=self.sending.listen, args=(self.answers,), daemon=True)
        reader.start()
        path = self._frames(queue)
        status = self.ssh.wait()
        reader.join()
        failed = self.sending.failed
        if failed or status or path:
            why = failed or f"{path or 'the last file'}: {self._why('the connection was lost')}"
            raise PushError(f"{why}; what came is kept, run it again")

    def help(self, queue: Queue) -> None:
        """Like run, for a further connection; where the machine grants none, the first goes on."""
        try:
            self.hello()
        except PushError:
            return
        self.run(queue)

    def end(self) -> None:
        """End the connection, whatever it is doing."""
        if self.ssh.poll() is None:
            self.ssh.terminate()
            self.ssh.wait()

    def _why(self, otherwise: str) -> str:
        """The last line that ssh wrote."""
        assert self.ssh.stderr  # noqa: S101 - Popen was given a pipe
        lines = self.ssh.stderr.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else otherwise

    def _frames(self, queue: Queue) -> str:
        """Write frames; the path at which the machine stopped taking, or nothing."""
        path = ""
        try:
            while frame := queue.take():
                path = frame.path
                self._send(frame)
            path = ""
            self.into.close()
        except ConnectionError:  # ssh has ended
            return path or "the last file"
        except OSError as error:
            raise PushError(f"{error.filename or path}: {error.strerror}") from error
        return ""

    def _send(self, frame: Frame) -> None:
        path = self.sending.top / frame.path
        header = {"sha256": frame.sha256, "size": frame.size, "offset": frame.offset}
        with path.open("rb", buffering=0) as file:
            if file.seek(0, 2) != frame.size:
                what = f"has not {frame.size} bytes; fill the bundle: sparkwright bundle"
                raise PushError(f"{path}: {what}")
            file.seek(frame.offset)
            self.into.sendall(json.dumps(header).encode() + b"\n")
            left = frame.size - frame.offset
            while left:
                moved = _move(file, self.into, min(left, CHUNK))
                if not moved:
                    raise PushError(f"{path}: became shorter while it was read")
                left -= moved
                self.sending.moved(moved)


def _move(file: IO[bytes], out: socket.socket, at_most: int) -> int:
    """Bytes from the file into the socket; Linux moves them without a copy here (sendfile(2))."""
    if sys.platform == "linux":
        return os.sendfile(out.fileno(), file.fileno(), None, at_most)
    piece = file.read(at_most)
    out.sendall(piece)
    return len(piece)


def frames_of(
    wanted: Sequence[tuple[str, int, str]], hello: dict[str, Any], sending: Sending
) -> list[Frame]:
    """What has to travel, after what the machine says that it has of it."""
    frames = []
    for path, size, sha256 in wanted:
        have = size if sha256 in hello["whole"] else int(hello["have"].get(sha256, 0))
        offset = have if have <= size else 0
        sending.skipped += offset
        if sha256 not in hello["whole"]:
            frames.append(Frame(path, size, sha256, offset))
    return frames
