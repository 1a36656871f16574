"""Receives packs from whichever machines of the fleet have them, several at a time.

Every machine that receives serves what it has finished, so that N machines take about log2(N)
copies of time, and less when there are several packs: they travel one behind another. Which
machine gives which pack is decided here, pack by pack: the rarest first, from the least busy. A
machine that stops answering is left out and named; another one gives the rest.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path

from spread_behind import Behind
from spread_link import Busy, Link, Peer
from spread_part import Arriving, Part, Proof, WrongContentError

# Packs at a time: hashing one stream takes one core (our choice).
STREAMS = 4
# Seconds: no second try of a machine that failed for so long, nor of a busy one (our choices).
FAILED_S, BUSY_S, POLL_S = 2.0, 0.1, 0.1
# Seconds without an answer from any machine after which that is said (our choice).
SILENT_S = 10.0
LOST_S = 5.0  # the same for one machine
UNKNOWN = -1  # a count that no machine has: it answers at once, also when it has nothing yet


@dataclass
class Asked:
    """What is known about one machine."""

    peer: Peer
    have: frozenset[int] = frozenset()
    whole: bool = False
    answered: float = 0.0
    active: int = 0
    not_before: dict[int, float] = field(default_factory=dict)
    failed_until: float = 0.0
    problem: str = ""


class Swarm:
    """One item on its way to this machine.

    + packs: all of the item's, in its order; None for those that are here
    + report: gets the bytes that came, negative ones when they were wrong
    + go: tells that this machine is to get the rest elsewhere
    + look: called now and then, to tell others how it goes
    + hopeless_s: seconds without a byte, and without anything to get, after which it gives up
    """

    def __init__(
        self,
        peers: Sequence[Peer],
        packs: Sequence[Sequence[Part] | None],
        report: Callable[[int], None],
        go: Callable[[], bool],
        hopeless_s: float,
        look: Callable[[Swarm], None],
    ) -> None:
        self.asked = [Asked(peer) for peer in peers]
        self._behind = Behind()
        self.waiting = {n: Arriving(p, self._behind) for n, p in enumerate(packs) if p is not None}
        self.proofs: dict[Path, Proof] = {}
        self.lock = threading.Lock()
        self.error: OSError | None = None
        self.began = self.moved = time.monotonic()
        self._moving: set[int] = set()
        self._report, self._go, self._hopeless_s, self._look = report, go, hopeless_s, look
        self._ended = threading.Event()

    def run(self) -> None:
        """Receive until everything is here or nothing more will come. Raises OSError."""
        threads = [threading.Thread(target=self._watch, args=(a,), daemon=True) for a in self.asked]
        workers = [threading.Thread(target=self._work) for _ in range(STREAMS)]
        for thread in (*threads, *workers):
            thread.start()
        try:
            while self.waiting and not self.error and not self._over():
                time.sleep(POLL_S)
                self._look(self)
        finally:
            self._ended.set()
            for worker in workers:
                worker.join()
            self._behind.end()
        if self.error:
            raise self.error

    @property
    def silent(self) -> bool:
        """Whether no machine has answered for a while: a firewall, or all are gone."""
        return time.monotonic() - max([self.began, *[a.answered for a in self.asked]]) > SILENT_S

    def lost(self) -> list[list[object]]:
        """[name, reason, whether it answered before] of machines that do not answer."""
        now = time.monotonic()
        return [
            [a.peer.name, a.problem, bool(a.answered)]
            for a in self.asked
            if a.problem and now - max(a.answered, self.began) > LOST_S
        ]

    def _over(self) -> bool:
        now = time.monotonic()
        with self.lock:
            if self._moving or any(self._choices(a, now + 60) for a in self.asked):
                return False
        if self._go():
            # Each has been asked at least once by then, or does not answer.
            return all(a.answered or a.problem for a in self.asked)
        return now - max(self.moved, self.began) > self._hopeless_s

    def _watch(self, asked: Asked) -> None:
        """Ask one machine again and again what it has."""
        link, known = Link(asked.peer), UNKNOWN
        while not self._ended.is_set():
            try:
                have, whole = link.have(known)
                known = len(have)
                with self.lock:
                    asked.have, asked.whole = frozenset(have), whole
                    asked.answered, asked.problem = time.monotonic(), ""
            except (Busy, OSError, HTTPException, ValueError) as error:
                known = UNKNOWN
                with self.lock:  # Busy: it gives other things and was not told of this one yet
                    asked.have, asked.whole = frozenset(), False
                    asked.problem = str(error) or type(error).__name__
                self._ended.wait(1.0)

    def _choices(self, asked: Asked, now: float) -> list[int]:
        """Packs that one machine could give now. Hold the lock."""
        if asked.failed_until > now:
            return []
        idle = asked.have & self.waiting.keys() - self._moving
        return [n for n in idle if asked.not_before.get(n, 0.0) <= now]

    def _pick(self) -> tuple[int, Asked] | None:
        """The rarest pack, and the least busy of the machines that have it."""
        now = time.monotonic()
        with self.lock:
            givers: dict[int, list[Asked]] = {}
            for asked in self.asked:
                for number in self._choices(asked, now):
                    givers.setdefault(number, []).append(asked)
            if not givers:
                return None
            number = min(givers, key=lambda n: (len(givers[n]), random.random()))  # noqa: S311 - spreads load
            asked = min(givers[number], key=lambda a: (a.active, random.random()))  # noqa: S311 - as above
            self._moving.add(number)
            asked.active += 1
            return number, asked

    def _work(self) -> None:
        links: dict[str, Link] = {}
        while not self._ended.is_set():
            found = self._pick()
            if found is None:
                self._ended.wait(POLL_S / 2)
                continue
            number, asked = found
            link = links.setdefault(asked.peer.name, Link(asked.peer))
            self._bring(number, asked, link)

    def _bring(self, number: int, asked: Asked, link: Link) -> None:
        arriving, now = self.waiting[number], time.monotonic()
        told = arriving.offset

        def count(came: int) -> None:
            nonlocal told
            told += came
            self.moved = time.monotonic()
            self._report(came)

        try:
            link.bring(number, arriving, count)
            with self.lock:
                self.proofs |= dict(arriving.proofs)
                del self.waiting[number]
        except Busy:
            asked.not_before[number] = now + BUSY_S * (1 + random.random())  # noqa: S311 - as above
        except WrongContentError as error:
            asked.not_before[number] = now + 3600  # not from there again in this run
            print(f"{asked.peer.name}: {error}; not taken", flush=True)
        except (ConnectionError, TimeoutError, HTTPException) as error:
            asked.failed_until = now + FAILED_S
            asked.problem = str(error) or type(error).__name__
        except OSError as error:  # this machine's own: a full disk
            self.error = error
        finally:
            arriving.close()
            self._report(arriving.offset - told)
            with self.lock:
                self._moving.discard(number)
                asked.active -= 1
