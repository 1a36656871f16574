"""Long work on an item that machines can copy from one another: get it once, pass it on."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from pyinfra import host as current_host
from pyinfra import state as current_state
from pyinfra.api import FunctionCommand
from pyinfra.api.command import PyinfraCommand

from sparkwright import interrupts, report, spread, spread_run, spread_wire
from sparkwright.job_watch import POLL_S, watch
from sparkwright.jobs import Job, JobPlan, start_commands
from sparkwright.operations import as_pyinfra
from sparkwright.spread import SILENT, Share


def files(share: Share, wanted: JobPlan, job: Job) -> Iterator[PyinfraCommand]:
    """Weights: one job asks the others and, where it is chosen, the upstream for the rest."""
    state, host = current_state, current_host
    with spread_run.attending(state, host, share) as whole:
        first = share.chooses(host.name)
        yield from map(as_pyinfra, wanted.before)
        look = None
        if share.common:  # else nobody is there to ask; who comes later has this one give it
            yield FunctionCommand(have_holders, [share], {})
            share.giving.add(host.name)
            own = spread_run.data_of(host)
            peers = spread_run.peers(state, share, host)
            job = spread_wire.joined(job, share.item, peers, own["spread_port"])
            look = Chooser(share, job, first)
            yield from map(as_pyinfra, spread_run.giving(own, share))
        yield from map(as_pyinfra, start_commands(job))
        yield FunctionCommand(watch, [job, look], {})
        whole.append(True)
        yield from map(as_pyinfra, wanted.after)


class Chooser:
    """Looks at a job's progress for as long as it runs; tells it when it is the chosen one.

    + first: whether this machine was chosen before its job began
    """

    def __init__(self, share: Share, job: Job, first: bool) -> None:
        self.share, self.job = share, job
        self.chosen, self.told = first, False
        self.lost: set[str] = set()

    def __call__(self, host: Any, progress: Mapping[str, Any]) -> None:
        """One look."""
        for name, reason, before in progress.get("lost") or ():
            holds = name in self.share.holding
            if (before or holds) and name not in self.lost:
                self.lost.add(name)
                report.note(host, f"{self.share.item.what}: goes on without {name} ({reason})")
            if holds:  # else nobody would be chosen to get what only that one has
                self.share.gone.add(name)
        # A machine that reaches none of the others gets everything as it would without them.
        silent = progress.get("message") == SILENT
        self.chosen = self.chosen or self.share.chooses(host.name) or silent
        if self.chosen and not self.told:
            self.told = spread_run.run_on(host, spread_wire.go(self.job))[0]


def have_holders(state: Any, host: Any, share: Share) -> bool:
    """Have machines give the item that hold it or get it, at least those that this one asks."""
    making = [share.making] if share.making not in (None, host.name) else []
    for name in [*share.sources(host.name)[: spread.HOLDERS], *making]:
        if name and name not in share.giving:
            share.giving.add(name)
            spread_run.serves(state, share, name)
    return True


def tree(share: Share, wanted: JobPlan, job: Job) -> Iterator[PyinfraCommand]:
    """A build or an environment: one machine makes it, the others copy the result."""
    state, host = current_state, current_host
    with spread_run.attending(state, host, share) as whole:
        while not whole:
            turn: list[str] = []
            yield FunctionCommand(wait_for_turn, [share, turn], {})
            if turn == ["make"]:
                yield from map(as_pyinfra, [*wanted.before, *start_commands(job)])
                yield FunctionCommand(watch, [job, None], {})
                whole.append(True)
                continue
            source, listed = turn
            copy = _copying(state, host, share, job, source, listed)
            yield from map(as_pyinfra, start_commands(copy))
            yield FunctionCommand(try_copy, [copy, share, source, whole], {})
        yield from map(as_pyinfra, wanted.after)


def _copying(state: Any, host: Any, share: Share, job: Job, source: str, listed: str) -> Job:
    """The job that copies: the machine that lists the tree, and all that copy it too."""
    own = spread_run.data_of(host)
    names = dict.fromkeys([source, *share.peers(host.name)])
    found = [(n, spread.addresses(own, spread_run.data_of(state.inventory.get_host(n))))
             for n in names]  # fmt: skip
    joined = spread_wire.joined(job, share.item, found, own["spread_port"], listed)
    open_ = tuple(p for p in job.properties if not p.startswith("PrivateNetwork="))
    return replace(joined, properties=open_)


def wait_for_turn(state: Any, host: Any, share: Share, turn: list[str]) -> bool:
    """Wait until this machine is to make the item (`make`) or somebody has it (name, list)."""
    said = False
    while not interrupts.came():
        for name in share.sources(host.name):
            listed = offered(state, share, name)
            if listed:
                turn += [name, listed]
                return _gives(host, share)
        if share.chooses(host.name):
            turn.append("make")
            return True
        if not said:
            report.note(host, f"{share.item.what}: waits for {share.making}, to copy it from there")
            said = True
        time.sleep(POLL_S / 4)
    return False


def offered(state: Any, share: Share, name: str) -> str:
    """The sha256 of a holder's list of its tree, asked once; "" when it cannot give it."""
    while share.lists.get(name) == "…":
        time.sleep(POLL_S / 4)
    if name not in share.lists:
        share.lists[name] = "…"
        share.giving.add(name)
        holder = state.inventory.get_host(name)
        data = spread_run.data_of(holder)
        if share.item.export:
            report.note(holder, f"{share.item.what}: writes it out for others")
        told = spread_run.token(share), spread_run.serving(data)
        done, out = spread_run.run_on(
            holder, spread_wire.offer(share.item, data["service_user"], *told)
        )
        if not done:
            share.gone.add(name)
            what = f"cannot give {share.item.what} to others: {spread_run.last(out)}"
            report.note(holder, what)
        share.lists[name] = spread_run.last(out) if done else ""
    return share.lists[name]


def _gives(host: Any, share: Share) -> bool:
    """Let this machine pass on what it has received so far."""
    share.giving.add(host.name)
    commands = spread_run.giving(spread_run.data_of(host), share)
    return all(spread_run.run_on(host, command)[0] for command in commands)


def try_copy(state: Any, host: Any, job: Job, share: Share, source: str, whole: list[bool]) -> bool:
    """Follow a copy; when it fails, its source is left out and the next turn decides."""
    if watch(state, host, job, None, failing=False):
        share.lists[host.name] = share.lists[source]
        whole.append(True)
    elif interrupts.came():
        return False
    else:
        share.gone.add(source)
        report.note(host, f"{share.item.what}: the copy from {source} failed; it is made here")
    return True
