"""Looks at one copy for as long as it runs: what came, who is lost, and when to end it."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from sparkwright import push_wire, report, spread_run, spread_wire
from sparkwright.jobs import Job
from sparkwright.push_site import WHAT, Site

# Seconds that a machine has to answer for the first time: its server has just been started, and
# each of its addresses is tried for 3 s (spread_link.py). Our choice.
FIRST_S: Final = 10.0


class Look:
    """One machine's copy.

    + rest: contents that it copies; mine: those that the laptop sends meanwhile, by `sending`
    + told: the job was told to end, so that the next round sends what would not come
    """

    def __init__(
        self, site: Site, name: str, rest: Collection[str], mine: Collection[str], sending: Any
    ) -> None:
        self.site, self.me, self.name = site, site.member(name), name
        self.rest, self.mine, self.sending = set(rest), set(mine), sending
        self.told, self.message = False, ""

    def begins(self, job: Job, names: Collection[str]) -> None:
        """The job starts; these are asked."""
        self.job, self.names, self.began = job, list(names), time.monotonic()

    def numbers_of(self, contents: Iterable[str]) -> list[int]:
        """Numbers of those that are copied here."""
        wanted = self.rest.intersection(contents)
        return [n for n, content in enumerate(self.site.contents) if content in wanted]

    def __call__(self, host: Any, progress: Mapping[str, Any]) -> None:
        """One look."""
        self.message = str(progress.get("message", ""))
        if "waiting" not in progress:
            return
        waiting = {self.site.contents[n] for n in progress["waiting"]}
        self._came(self.rest - waiting)
        self._losses(host, progress)
        ended = self.sending is not None and self.sending.ready()
        if ended and not self.sending.value:  # the machine's part cannot be had in this run
            self.told = spread_run.run_on(host, push_wire.stop(self.job))[0]
            return
        if ended:
            self._came(self.mine)
        idle = self.sending is None or ended  # a machine takes one push at a time
        if idle and not self.told and self.site.stranded(self.name, waiting, self.names):
            self.told = spread_run.run_on(host, spread_wire.go(self.job))[0]

    def _came(self, contents: Iterable[str]) -> None:
        for content in set(contents) & self.me.wants:
            self.me.wants.discard(content)
            self.me.has[content] = f"{push_wire.INCOMING}/{content}"

    def _losses(self, host: Any, progress: Mapping[str, Any]) -> None:
        """Machines that do not answer, or not with what they should have."""
        for name, why, before in progress.get("lost") or ():
            told = self.site.giving.get(name)  # else it has no server yet
            if told is not None and (before or self._since(told) > FIRST_S):
                self._lose(host, name, str(why))
        for name, number, why in progress.get("wrong") or ():
            content = self.site.contents[number]
            if (name, content) not in self.me.wrong:
                self.me.wrong.add((name, content))
                report.note(host, f"{WHAT}: {name} {why}: {content[:12]}; not taken from there")

    def _since(self, told: float) -> float:
        return time.monotonic() - max(told, self.began)

    def _lose(self, host: Any, name: str, why: str) -> None:
        if name not in self.me.lost:
            self.me.lost.add(name)
            report.note(host, f"{WHAT}: goes on without {name} ({why})")
