"""Who of one run gets which content of a bundle from the laptop, and who copies it. Pure: no I/O.

Machines need different parts of a bundle, so this is decided a content (its sha256): the laptop
sends a machine only what no other one has or is getting, and everything else is copied. As with
weights (spread.py), the first machine that is at work is chosen, and nobody waits for one that
has not come.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from sparkwright.digest import digest
from sparkwright.spread import HOLDERS, Item

WHAT = "the bundle"  # as messages call it


@dataclass
class Member:
    """One machine.

    + wants: contents that it lacks; parts: sha256 -> bytes of it that a cut left there
    + has: contents that it can give -> the path of each, below the bundle's directory there
    + claimed: contents that come to it from the laptop, now or in its next round
    + lost: machines that it does not reach; wrong: (machine, content) that did not come right
    + own: addresses that are its own at the moment: a fabric may not be set up yet
    + present: it is at work; begun: its first round is; gone: it failed; mute: it cannot give
    """

    wants: set[str] = field(default_factory=set)
    parts: Mapping[str, int] = field(default_factory=dict)
    has: dict[str, str] = field(default_factory=dict)
    claimed: set[str] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)
    wrong: set[tuple[str, str]] = field(default_factory=set)
    own: frozenset[str] = frozenset()
    present: bool = False
    begun: bool = False
    gone: bool = False
    mute: bool = False


class Site:
    """The machines of a run that share a bundle.

    + sizes: content -> bytes, of all machines' parts
    + contents: the same in the order in which machines number them
    + giving: machine that was told to give -> when, by time.monotonic
    + touched: those, and all that were at work
    """

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self.sizes = dict(sizes)
        self.contents = sorted(sizes)
        self.item = Item(f"bundle-{digest({'contents': self.contents})}", WHAT, "")
        self.members: dict[str, Member] = {}
        self.giving: dict[str, float] = {}
        self.touched: set[str] = set()

    def member(self, name: str) -> Member:
        """A machine; a new one knows nothing and has nothing."""
        return self.members.setdefault(name, Member())

    def comes(self, name: str) -> None:
        """It is at work."""
        me = self.member(name)
        me.present, me.begun, me.gone, me.claimed = True, False, False, set()
        self.touched.add(name)

    def leaves(self, name: str, whole: bool) -> None:
        """Its work is over; after a failure others get what was to come from it."""
        me = self.member(name)
        me.present, me.begun, me.gone, me.claimed = False, False, not whole, set()

    @property
    def over(self) -> bool:
        """Whether nobody is at work any more."""
        return not any(member.present for member in self.members.values())

    def offers(self, giver: str, taker: str, content: str) -> bool:
        """Whether a machine has a content, or gets it from the laptop, and another can copy it."""
        member, me = self.members[giver], self.members[taker]
        if giver == taker or member.gone or member.mute or giver in me.lost:
            return False
        there = content in member.has or content in member.claimed
        return there and (giver, content) not in me.wrong

    def sources(self, name: str, content: str) -> list[str]:
        """Machines that have it, or get it from the laptop."""
        return [other for other in sorted(self.members) if self.offers(other, name, content)]

    def comes_to(self, name: str, content: str, asked: Iterable[str]) -> bool:
        """Whether a content will come from one of these: it is there, or on its way to there."""
        me = self.members[name]
        for other in asked:
            if self.offers(other, name, content):
                return True
            its = self.members[other]
            waits = its.present and content in its.wants and (other, content) not in me.wrong
            reached = other != name and other not in me.lost and not its.mute
            if waits and reached and set(self.sources(other, content)) - {name}:
                return True
        return False

    def claims(self, name: str) -> set[str]:
        """What this machine, which is at work now, is to get from the laptop.

        A machine that is at work too and has more of a content already gets that instead.
        """
        me = self.members[name]
        me.begun = True
        for content in sorted(me.wants - me.claimed):
            if not self.comes_to(name, content, sorted(self.members)):
                self.members[self._further(name, content)].claimed.add(content)
        return me.claimed & me.wants

    def _further(self, name: str, content: str) -> str:
        """The machine that has most of a content, of this one and those that have not begun."""
        me = self.members[name]
        others = [
            other
            for other, its in self.members.items()
            if its.present and not its.begun and content in its.wants and other not in me.lost
        ]
        return max([name, *others], key=lambda n: self.members[n].parts.get(content, 0))

    def givers(self, name: str, contents: Collection[str]) -> list[str]:
        """Machines that have to give, a few for each content: more would only cost questions."""
        found: dict[str, None] = {}
        for content in sorted(contents):
            found |= dict.fromkeys(self.sources(name, content)[:HOLDERS])
        return list(found)

    def peers(self, name: str, contents: Collection[str]) -> list[str]:
        """Machines to ask: those, and all at work that want any of the same."""
        me, wanted = self.members[name], set(contents)
        also = [
            other
            for other, its in sorted(self.members.items())
            if its.present and not its.mute and its.wants & wanted and other not in me.lost
        ]
        found = dict.fromkeys([*self.givers(name, contents), *also])
        return [other for other in found if other != name]

    def stranded(self, name: str, waiting: Iterable[str], asked: Collection[str]) -> set[str]:
        """Contents that will come from none of the machines that this one asks."""
        return {content for content in waiting if not self.comes_to(name, content, asked)}
