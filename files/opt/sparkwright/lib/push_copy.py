"""Copies contents of a bundle from other machines of the fleet; the laptop decides who brings.

    push_copy.py SPEC

SPEC has, beside `spread` (spread_job.py) and `progress`:

+ incoming: directory where contents arrive, named by their sha256, as those of a push do
+ packs: [sha256, size] of each content, or null for one that does not come this way
+ has: name of a machine -> numbers of packs that it should have by now

Progress tells the laptop which packs are still missing (`waiting`), which machines do not answer
(`lost`) and who gave something else or does not have what it should (`wrong`). Who is told to get
the rest elsewhere ends without it. Exit codes: 0 over, whatever is missing; 1 failed.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from http.client import HTTPException
from pathlib import Path
from typing import Any

from job_progress import Progress
from spread_job import Spread, word
from spread_part import Part
from spread_swarm import Swarm

# As with weights: what all wait for may be on a slow way from the laptop.
HOPELESS_S = 3600.0
# Seconds after which a machine that answers should have listed what it has (our choice).
LISTED_S = 10.0
# A pack that is left alone for longer than this was wrong, not busy (spread_swarm.py).
REFUSED_S = 60.0


class Copy:
    """One copy; counts what comes."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.progress = Progress(spec["progress"])
        self.has: dict[str, set[int]] = {n: set(rows) for n, rows in spec["has"].items()}
        self.sizes = {n: int(row[1]) for n, row in enumerate(spec["packs"]) if row}
        self.lock = threading.Lock()
        self.done, self.total, self.began = 0, sum(self.sizes.values()), time.monotonic()
        incoming, spread = Path(spec["incoming"]), Spread(spec["spread"])
        packs = [part(incoming, *row) if row else None for row in spec["packs"]]
        self.swarm = Swarm(
            spread.peers, packs, self.count, spread.told, HOPELESS_S, lambda swarm: self.tell(False)
        )

    def count(self, came: int) -> None:
        """Bytes that came; negative ones were wrong."""
        with self.lock:
            self.done += came

    def tell(self, force: bool) -> None:
        """Say how it goes, at most once a second unless forced."""
        with self.swarm.lock:
            waiting = sorted(self.swarm.waiting)
        took = max(time.monotonic() - self.began, 0.001)
        begun = f"{len(self.sizes) - len(waiting)} of {len(self.sizes)} contents"
        self.progress.say(
            "copying",
            word(self.swarm, begun),
            force,
            done_bytes=self.done,
            total_bytes=self.total,
            rate_bps=self.done / took,
            waiting=waiting,
            lost=self.swarm.lost(),
            wrong=self.wrong(waiting),
        )

    def wrong(self, waiting: list[int]) -> list[list[object]]:
        """[machine, pack, why] of packs that will not come from there."""
        now, found = time.monotonic(), list[list[object]]()
        for asked in self.swarm.asked:
            name = asked.peer.name
            later = dict(asked.not_before)
            found += [[name, n, "gave other bytes"] for n in waiting
                      if later.get(n, 0.0) > now + REFUSED_S]  # fmt: skip
            if asked.answered and now - self.began > LISTED_S:
                lacks = self.has.get(name, set()).intersection(waiting) - asked.have
                found += [[name, n, "does not have it"] for n in sorted(lacks) if not asked.problem]
        return found

    def run(self) -> None:
        """Copy until all is here or it is told to end. Raises OSError."""
        self.swarm.run()
        self.tell(True)


def part(incoming: Path, sha256: str, size: int) -> list[Part]:
    """One content; on its way it has the name that a push gives it."""
    beside = incoming / f"{sha256}.part"
    return [Part(incoming / sha256, beside, size, f"sha256:{sha256}")]


def main(argv: list[str]) -> int:
    """Run one copy; see the module's docstring."""
    copy = Copy(json.loads(Path(argv[0]).read_text()))
    try:
        copy.run()
    except (OSError, HTTPException) as error:
        why = (error.strerror if isinstance(error, OSError) else "") or str(error)
        copy.progress.say("failed", why)
        return 1
    print(f"{copy.done} bytes from other machines", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
