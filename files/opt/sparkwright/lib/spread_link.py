"""A connection to one machine that gives packs; see spread_serve.py for what it is asked."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse

from spread_part import CHUNK, Arriving

# Seconds: to connect, which takes milliseconds on one site, and without a byte (our choices).
CONNECT_S, SILENCE_S = 3.0, 20.0
WAIT_S = 5  # how long a machine may hold back its answer when it has nothing new


class Busy(Exception):
    """The machine gives this pack to another one at the moment, or has it no longer."""


@dataclass(frozen=True)
class Peer:
    """A machine to ask.

    + addresses: the better ones first; all on one port
    """

    name: str
    addresses: tuple[str, ...]
    port: int
    key: str
    token: str


class Link:
    """Keeps its connection open; the address that answered is the one that is used."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self._open: HTTPConnection | None = None

    def have(self, known: int) -> tuple[list[int], bool]:
        """(numbers of packs, whether these are all).

        Raises Busy when it does not know the item, OSError, HTTPException or ValueError.
        """
        with self._closing():
            answer = self._ask(f"have?known={known}&wait={WAIT_S}")
            told = json.loads(answer.read())
            return [int(n) for n in told["have"]], bool(told["whole"])

    def manifest(self) -> bytes:
        """The item's text for receivers. Raises OSError or HTTPException."""
        with self._closing():
            return self._ask("manifest").read()

    def bring(self, number: int, arriving: Arriving, count: Callable[[int], None]) -> None:
        """Receive a pack, or its rest.

        Raises Busy, WrongContentError, OSError or HTTPException; what came stays in `arriving`.
        """
        had = arriving.offset
        begin = arriving.resume()
        if begin > had:
            count(begin - had)
        arriving.reopen()
        with self._closing():
            answer = self._ask(f"pack/{number}", {"Range": f"bytes={begin}-"} if begin else {})
            if begin and answer.status != 206:
                raise HTTPException("a part was asked for and something else came")
            buffer = bytearray(CHUNK)
            view = memoryview(buffer)
            while arriving.offset < arriving.size:
                came = answer.readinto(view)
                if not came:
                    raise ConnectionError("the connection ended early")
                arriving.write(view[:came])
                count(came)
            answer.read()
        arriving.finish()

    def _ask(self, what: str, headers: dict[str, str] | None = None) -> HTTPResponse:
        if self._open is None:
            self._open = self._connect()
        words = {"Authorization": f"Bearer {self.peer.token}", **(headers or {})}
        self._open.request("GET", f"/{self.peer.key}/{what}", headers=words)
        answer = self._open.getresponse()
        if answer.status in (404, 503):
            answer.read()
            raise Busy("does not give this now")
        if answer.status not in (200, 206):
            answer.read()
            raise ConnectionError(f"answered {answer.status}")
        return answer

    def _connect(self) -> HTTPConnection:
        problem: OSError | None = None
        for address in self.peer.addresses:
            found = HTTPConnection(address, self.peer.port, timeout=CONNECT_S)
            try:
                found.connect()
            except OSError as error:
                problem = error
                continue
            if found.sock:
                found.sock.settimeout(SILENCE_S)
            return found
        raise problem or ConnectionError("has no address")

    @contextlib.contextmanager
    def _closing(self) -> Iterator[None]:
        """After anything but a complete answer the connection is of no use."""
        try:
            yield
        except Busy:
            raise
        except BaseException:
            if self._open:
                self._open.close()
            self._open = None
            raise


def read_peers(spread: dict[str, object], token: str) -> Sequence[Peer]:
    """The machines that a job may ask, from its spec."""
    rows: list[tuple[str, list[str]]] = spread["peers"]  # type: ignore[assignment]  # JSON of ours
    port, key = int(str(spread["port"])), str(spread["key"])
    return [Peer(name, tuple(places), port, key, token) for name, places in rows]
