"""The rollout of one pyinfra run: its greenlets wait here for their machine's turn.

pyinfra 3.10.0 runs an operation on all machines at once, in the random order of a set; its own
`_serial` goes on after a failure, and so does `--serial` (pyinfra#1195). So the turn belongs here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import gevent
from gevent.event import Event
from pyinfra import logger
from pyinfra.api import BaseStateCallback

from sparkwright import interrupts, per_run, report
from sparkwright.rollout import GO, WAIT, Demand, Member, Rollout

LOOK_S = 1.0  # between looks whether somebody pressed Ctrl-C; turns themselves wake us


class InOrder(set[Any]):
    """A set of hosts that is iterated in the inventory's order, as sparks.yaml lists them."""

    def __init__(self, hosts: Iterable[Any], order: Iterable[Any]) -> None:
        super().__init__(hosts)
        self._rank = {host: place for place, host in enumerate(order)}

    def __iter__(self) -> Iterator[Any]:
        return iter(sorted(super().__iter__(), key=lambda host: self._rank[host]))


def in_order(state: Any) -> None:
    """Let pyinfra take machines in the fleet's order from here on, with --serial too."""
    state.active_hosts = InOrder(state.active_hosts, state.inventory)


def absent(state: Any, host: Any, names: Iterable[str]) -> list[str]:
    """Those of these machines that do not do what this host does in the same run, side by side."""
    here = {other.name for other in state.inventory.get_active_hosts()}
    alone = state.is_executing and _alone()
    return [name for name in names if name not in here or (alone and name != host.name)]


def _alone() -> bool:
    """With --serial pyinfra runs a machine to its end, in the main greenlet."""
    return not isinstance(gevent.getcurrent(), gevent.Greenlet)


def gate(state: Any) -> Gate:
    """The gate of a run."""
    return per_run.of(state, Gate)


class Gate(BaseStateCallback):
    """Turns of one run. Every host of the operation must come through `enter`."""

    def __init__(self, state: Any) -> None:
        self.rollout = Rollout()
        self._state = state
        self._op = ""
        self._hosts: list[Any] = []
        self._changed = Event()
        state.add_callback_handler(self)

    def arrive(self, host: Any) -> None:
        """A host has reached the operation; called before anything is asked of it.

        Then no host has failed in this operation yet, so pyinfra's active hosts are those that will
        come. A host's neighbours are those that pyinfra runs beside it (`--parallel`, `--serial`).
        """
        if not self._hosts:
            self._op = host.current_op_hash
            self._hosts = self._state.inventory.get_active_hosts()
            batches = [int(h.data.get("rollout_batch") or 1) for h in self._hosts]
            self.rollout.batch = max(1, min(batches))
        if host.name not in self.rollout.members:
            beside, names = self._beside(host), [h.name for h in self._hosts]
            self.rollout.expect([_member(h, [b.name for b in beside], names) for h in beside])

    def enter(self, host: Any, demand: Demand, whole: bool = False) -> str:
        """
        Wait for the turn; GO, or why there is none.

        + whole: units of its whole cluster have to change
        """
        self.rollout.decide(host.name, demand, whole)
        self._wake()
        said = False
        while (verdict := self.rollout.may(host.name)) == WAIT:
            if interrupts.came():
                return "interrupted"
            if not said:
                logger.info(f"{host.print_prefix}waits for its turn in the rollout")
                said = True
            self._changed.wait(LOOK_S)
        if verdict != GO:
            self._wake()
        return verdict

    def behind(self, host: Any, names: Sequence[str]) -> bool:
        """Wait until other machines of this host's turn are through.

        Whatever they have to do is this host's as well: its turn is not over before it has seen
        to that. Those that take no part in the run, or come later (--serial), are not waited for.

        Returns whether they had anything to do.
        """
        me, members = self.rollout.members[host.name], self.rollout.members
        those = [members[name] for name in names if name in members]
        while any(not other.end for other in those) and not interrupts.came():
            known = [other.demand for other in those if other.demand is not None]
            me.demand = max([me.demand or Demand.NOTHING, *known])
            self._changed.wait(LOOK_S)
        return any(other.demand or other.whole for other in those)

    def refuse(self, host: Any) -> None:
        """What is wanted of this host is refused, and nothing was begun."""
        self.rollout.refuse(host.name)
        self._wake()

    def operation_host_success(  # type: ignore[override] # pyinfra calls it on this object
        self, state: Any, host: Any, op_hash: str, retry_count: int = 0
    ) -> None:
        """pyinfra: all commands of a host were good."""
        self._finish(host, op_hash, good=True)

    def operation_host_error(  # type: ignore[override] # pyinfra calls it on this object
        self, state: Any, host: Any, op_hash: str, retry_count: int = 0, max_retries: int = 0
    ) -> None:
        """pyinfra: a command of a host failed, and its retries did."""
        self._finish(host, op_hash, good=False)

    def _finish(self, host: Any, op_hash: str, good: bool) -> None:
        if op_hash != self._op or host.name not in self.rollout.members:
            return
        self.rollout.finish(host.name, good)
        self._wake()
        if all(m.end or m.demand == 0 for m in self._ended()):
            self._tell()

    def _ended(self) -> list[Member]:
        absent = [Member(h.name, h.name) for h in self._hosts]
        return [self.rollout.members.get(m.name, m) for m in absent]

    def _tell(self) -> None:
        found = self.rollout.summary()
        names = {host.name: host for host in self._hosts}
        for name, end in found.items():
            report.record("rollout", names[name], end)
        if set(found.values()) <= {"done"}:
            return
        logger.error("rollout: not all machines got what is wanted")
        for word in ("done", "failed", "lost", "untouched"):
            those = [name for name, end in found.items() if end == word]
            logger.error(f"  {word}: {', '.join(those) or '-'}")

    def _beside(self, host: Any) -> list[Any]:
        if _alone():
            return [host]
        size = self._state.get_op_meta(self._op).global_arguments["_parallel"] or len(self._hosts)
        at = self._hosts.index(host) // size * size
        return self._hosts[at : at + size]

    def _wake(self) -> None:
        self._changed.set()
        self._changed.clear()


def _member(host: Any, beside: Sequence[str], all_names: Sequence[str]) -> Member:
    cluster = host.data.get("cluster") or {}
    partners = tuple(member["name"] for member in cluster.get("members", ()))
    apart = tuple(name for name in partners if name in all_names and name not in beside)
    group = f"cluster {cluster['name']}" if cluster else host.name
    return Member(host.name, group, partners, apart)
