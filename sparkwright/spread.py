"""Who brings what into a site, and who copies it from whom. Pure: state of one run, no I/O.

One item (a snapshot of weights, a build, a venv) enters a site once. Of the machines that want it
one gets it from where it comes from, the others copy it from each other. Nobody ever waits for a
machine that has not come: the first one that arrives is chosen at once, so a run with --serial,
with --limit or with machines that failed before goes on as it would without this.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

# What a job says when nobody answers it; spread_job.py on the machine has the same words.
SILENT: Final = "no other machine answers"
# Holders that every machine asks beside its neighbours: more would only cost questions (our
# choice; the tree begins at each of them).
HOLDERS: Final = 4


@dataclass(frozen=True)
class Item:
    """One thing that machines can give one another.

    + key: digest of its content and place; the same key means that a copy is as good as one's own
    + what: how messages call it
    + place: directory on the machine
    + files: (path, bytes) of weights, in order; () for a tree, which is listed on a machine
    + export: our program that makes the tree on a machine that has the thing in another form, and
      its words; the tree is alone in a directory, which goes when nobody wants it any more
    """

    key: str
    what: str
    place: str
    files: tuple[tuple[str, int], ...] = ()
    export: tuple[str, ...] = ()


@dataclass
class Share:
    """One item in one run.

    + wanting: machines that lack it; holding: machines that have it whole
    + making: the one that gets it from where it comes from, while it is at work
    + gone: machines that failed in this run
    + giving: holders that were told to give it; lists: holder of a tree -> sha256 of its list
    """

    item: Item
    wanting: set[str] = field(default_factory=set)
    holding: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)
    making: str | None = None
    giving: set[str] = field(default_factory=set)
    lists: dict[str, str] = field(default_factory=dict)

    def sees(self, name: str, holds: bool) -> None:
        """A machine's state, as it was asked just now."""
        self.wanting.discard(name)
        self.holding.discard(name)
        (self.holding if holds else self.wanting).add(name)

    @property
    def common(self) -> bool:
        """Whether there is anybody to copy from or for."""
        return len(self.wanting | self.holding) > 1

    def chooses(self, name: str) -> bool:
        """Whether this machine, which is at work now, is to get the item from where it comes from.

        The first that asks, when nobody is at it and nobody has it.
        """
        if self.making is None and not self.sources(name):
            self.making = name
        return self.making == name

    def sources(self, name: str) -> list[str]:
        """Machines that have it whole and can be asked."""
        return sorted(self.holding - self.gone - {name})

    def ends(self, name: str, whole: bool) -> None:
        """A machine's work on it is over; after a failure another one is chosen."""
        if self.making == name:
            self.making = None
        if whole:
            self.sees(name, True)
        else:
            self.gone.add(name)

    @property
    def over(self) -> bool:
        """Whether everybody who wanted it has it or has failed."""
        return not self.wanting - self.gone

    def peers(self, name: str) -> list[str]:
        """Machines that this one asks: some holders, and neighbours in a ring at 1, 2, 4, 8, …

        So each of N is asked by about 2 log2(N) others, and what one has reaches all of them in
        log2(N) steps, also when some of them are gone.
        """
        ring = sorted(self.wanting | {name})
        at, size, step = ring.index(name), len(ring), 1
        near: list[str] = []
        while step < size:
            near += [ring[(at + step) % size], ring[(at - step) % size]]
            step *= 2
        found = [*self.sources(name)[:HOLDERS], *near]
        return [other for other in dict.fromkeys(found) if other != name]


def addresses(own: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Where a machine reaches another: the fabric of a cluster of both first, then its address.

    None that is its own as well (two ports of the laptop's 127.0.0.1): there it would ask itself.

    + own, other: pyinfra data of both; `lan` is the other's address as the laptop reaches it
    """
    mine = own_addresses(own)
    return [place for place in _places(own, other) if place not in mine]


def own_addresses(own: Mapping[str, Any]) -> list[str]:
    """Where a machine is asked: all its addresses in a cluster's fabric, and the laptop's."""
    return _places(own, own)


def _places(own: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    cluster = own.get("cluster") or {}
    members = {m["address"]: m.get("fabric", ()) for m in cluster.get("members", ())}
    fabric: Iterable[str] = members.get(other.get("ssh_hostname"), ())
    return list(dict.fromkeys([*fabric, str(other["lan"])]))
