"""Who may restart services when: machine by machine in the fleet's order, until one fails. Pure.

What stops nothing that runs (a first start, a question that is still owed) goes first, everywhere
at once. Only when all of that has answered are running services replaced, group by group; a cluster
is one group. The first failure ends it: whoever has not begun keeps what it runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

GO, WAIT = "", "wait"


class Demand(IntEnum):
    """What a machine has to do to what it serves.

    + NOTHING: no start and no question; files may still be mended
    + START: starts or asks units, and stops none that runs
    + SWAP: stops or restarts a unit that runs
    """

    NOTHING = 0
    START = 1
    SWAP = 2


@dataclass
class Member:
    """One machine of a run.

    + group: "cluster NAME" of its cluster, else its own name
    + partners: the machines of its cluster, itself among them
    + apart: those of them that are in the run and never at work at the same time as this one
    + whole: units that run on all of the cluster together have to change
    + end: "", done, failed, untouched, or lost (nothing was begun and it cannot go on)
    """

    name: str
    group: str
    partners: Sequence[str] = ()
    apart: Sequence[str] = ()
    demand: Demand | None = None
    whole: bool = False
    begun: bool = False
    end: str = ""


@dataclass
class Rollout:
    """The state of one run.

    + batch: groups that may be at it at once
    + opened: groups whose turn has begun, all of a batch at the same moment
    """

    batch: int = 1
    opened: set[str] = field(default_factory=set)
    members: dict[str, Member] = field(default_factory=dict)

    def expect(self, members: Sequence[Member]) -> None:
        """Machines, in the fleet's order, that will say what they have to do."""
        for member in members:
            self.members.setdefault(member.name, member)

    def decide(self, name: str, demand: Demand, whole: bool = False) -> None:
        """A machine says what it has to do; once it has begun it does not say so again."""
        member = self.members[name]
        if not member.begun:
            member.demand, member.whole = demand, whole

    def may(self, name: str) -> str:
        """GO, WAIT, or why this machine must leave alone what it serves."""
        me = self.members[name]
        verdict = GO if me.begun else self._verdict(me)
        if verdict == GO:
            me.begun = True
        elif verdict != WAIT:
            me.end = "untouched"
        return verdict

    def refuse(self, name: str) -> None:
        """A machine cannot have what is wanted of it; nothing was begun, and that is a failure."""
        self.members[name].end = "failed"

    def finish(self, name: str, good: bool) -> None:
        """A machine has ended its turn, or never came to it."""
        me = self.members[name]
        if me.end:
            return
        if me.demand is None or not (me.begun or good):
            me.end = "lost"
        else:
            me.end = "done" if good else "failed"

    def failed(self) -> list[str]:
        """Machines whose failure ended the rollout."""
        return [m.name for m in self.members.values() if m.end == "failed"]

    def summary(self) -> dict[str, str]:
        """Machine -> done, failed, untouched or lost, for those that had something to do."""
        shown = [m for m in self.members.values() if m.demand or m.end in ("failed", "lost")]
        return {member.name: member.end or "untouched" for member in shown}

    def _verdict(self, me: Member) -> str:
        if not me.demand:
            return GO
        group = [m for m in self.members.values() if m.group == me.group]
        if any(m.demand is None and not m.end for m in group):
            return WAIT
        if me.whole and me.apart:
            return (
                f"{me.group}: {', '.join(me.apart)} has another turn than this machine, and the "
                "cluster's units change only together; run without --serial, and with a --parallel "
                "that takes all of the cluster at once"
            )
        if me.whole and (gone := self._gone(me)):
            return (
                f"{me.group}: {', '.join(gone)} takes no part in this run, and the "
                "cluster's units change only together; bring it back and run for all of them"
            )
        if max(m.demand or Demand.NOTHING for m in group) < Demand.SWAP:
            return GO
        return GO if me.group in self.opened else self._turn(me)

    def _gone(self, me: Member) -> list[str]:
        """Partners that are not in this run, or that dropped out of it before they began."""
        out = ("lost", "failed", "untouched")
        here = {m.name for m in self.members.values() if m.begun or m.end not in out}
        return [name for name in me.partners if name not in here]

    def _turn(self, me: Member) -> str:
        if bad := self.failed():
            return (
                f"rollout: stopped, {', '.join(bad)} failed; nothing that runs here was touched; "
                f"mend {bad[0]} and run again, or leave it out: --exclude {bad[0]}"
            )
        if any(m.demand is None and not m.end for m in self.members.values()):
            return WAIT
        groups = self._groups()
        swaps = [g for g, level in groups.items() if level == Demand.SWAP]
        first = swaps.index(me.group) // self.batch * self.batch
        before = {g for g in groups if g not in swaps} | set(swaps[:first])
        waits = [m for m in self.members.values() if m.group in before and m.demand and not m.end]
        if waits:
            return WAIT
        self.opened |= set(swaps[first : first + self.batch])
        return GO

    def _groups(self) -> Mapping[str, Demand]:
        """Groups in the fleet's order, each with the most that one of its machines has to do."""
        found: dict[str, Demand] = {}
        for member in self.members.values():
            mine = Demand.NOTHING if member.end == "lost" else member.demand or Demand.NOTHING
            found[member.group] = max(found.get(member.group, Demand.NOTHING), mine)
        return found
