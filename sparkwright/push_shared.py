"""A push to several machines at once: each content leaves the laptop once, the rest is copied.

push_site.py decides, this module talks. A machine works in rounds: what is its own to get is sent
by the laptop, and meanwhile a job on the machine copies the rest (push_copy.py). A round ends when
something will come from no other machine; the next one sends that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import gevent
from pyinfra import logger

from sparkwright import (
    interrupts,
    per_run,
    push_child,
    push_give,
    push_state,
    push_wire,
    report,
    spread,
    spread_run,
)
from sparkwright.bundle_layout import Entry
from sparkwright.errors import SparkwrightError
from sparkwright.job_watch import watch
from sparkwright.push_look import Look
from sparkwright.push_plan import files_of
from sparkwright.push_site import WHAT, Site
from sparkwright.push_state import Seen
from sparkwright.sources import source_of


def site_of(state: Any, host: Any) -> Site | None:
    """The run's machines that share; None when that is switched off, or in a fleet of one."""
    if not host.data.get("spread") or len(state.inventory) < 2:
        return None
    return per_run.of(state, _site)


def _site(state: Any) -> Site:
    return Site(_sizes(state))


def _sizes(state: Any) -> dict[str, int]:
    """Contents of every machine's part; one whose part is in question says so itself."""
    sizes: dict[str, int] = {}
    for host in state.inventory:
        if host.data.get("spread"):
            try:
                sizes |= {entry.sha256: entry.size for entry in files_of(host.data.dict())}
            except SparkwrightError as error:
                logger.debug("%s: takes no part: %s", host.name, error)
    return sizes


def look(host: Any, data: Mapping[str, Any], site: Site | None) -> Seen:
    """Ask a machine what it has, for itself and for the others.

    Raises ConnectionError or SparkwrightError.
    """
    if site is None:
        return push_state.look(host, data)
    seen = push_state.look(host, data, spread.own_addresses(spread_run.data_of(host)))
    me, lacking = site.member(host.name), {entry.path for entry in seen.lacking}
    wanted = {entry.sha256 for entry in seen.files}
    there = {c: f"{push_wire.INCOMING}/{c}" for c in seen.told["whole"] if c in wanted}
    me.wants = {entry.sha256 for entry in seen.lacking} - there.keys()
    me.has = there | {e.sha256: e.path for e in seen.files if e.path not in lacking}
    me.parts, me.own = seen.told["parts"], frozenset(seen.told["own"])
    return seen


@contextmanager
def attending(state: Any, host: Any, site: Site | None) -> Iterator[list[bool]]:
    """One machine at work; the block puts True into the list when its part is whole."""
    whole: list[bool] = []
    if site:
        site.comes(host.name)
    try:
        yield whole
    finally:
        if site:
            site.leaves(host.name, bool(whole))
            if not whole and len(site.members) > 1:
                report.note(host, f"{WHAT}: goes on without {host.name} (its own push failed)")
            if site.over:
                push_give.end(state, site)


def bring(state: Any, host: Any, data: Mapping[str, Any], site: Site) -> bool:
    """Send and copy what is missing; True when all is here."""
    try:
        seen = look(host, data, site)
        _tell(host, site)  # somebody else may have had it give before its files were hashed
        while True:
            if not site.member(host.name).wants:
                return True
            if interrupts.came() or not _round(state, host, data, site, seen.lacking):
                return False
            seen = look(host, data, site)
    except (ConnectionError, SparkwrightError) as error:
        return push_child.failed(host, str(error))


def _round(state: Any, host: Any, data: Any, site: Site, lacking: list[Entry]) -> bool:
    """Send what this machine is to get from the laptop, and copy the rest meanwhile."""
    mine = site.claims(host.name)
    rest = site.member(host.name).wants - mine
    sending = None
    if mine:
        entries = [entry for entry in lacking if entry.sha256 in mine]
        sending = gevent.spawn(push_child.sent, host, data, entries)
    try:
        if rest:
            _copy(state, host, data, site, Look(site, host.name, rest, mine, sending))
        return sending is None or bool(sending.get())
    finally:
        if sending:
            sending.kill()


def _copy(state: Any, host: Any, data: Mapping[str, Any], site: Site, eye: Look) -> None:
    """One copy; when it fails, all that it asked are left out, and the next round sends."""
    names = site.peers(host.name, eye.rest)
    for name in (*site.givers(host.name, eye.rest), host.name):
        push_give.give(state, site, name)
    own = {**data, "lan": spread_run.lan(host)}
    peers = [
        {
            "name": name,
            "addresses": push_give.addresses(state, site, own, name),
            "has": eye.numbers_of(site.members[name].has),
        }
        for name in names
    ]
    place = source_of(data).directory
    job = push_wire.copy_job(site, sorted(eye.rest), place, peers, own["spread_port"])
    eye.begins(job, names)
    done, out = push_give.run_all(host, push_wire.start(job))
    if done:
        done = watch(state, host, job, eye, failing=False)
        out = eye.message
    look(host, data, site)  # raises where the machine is gone
    me = site.member(host.name)
    if not done and not eye.told and not interrupts.came():
        report.note(host, f"{WHAT}: the copy failed ({spread_run.last(out)}); the laptop sends it")
        me.lost |= set(names)
    copied = sum(site.sizes[content] for content in eye.rest - me.wants)
    logger.info(f"{host.print_prefix}push: {copied / 1e6:.1f} MB from other machines")


def settled(state: Any, host: Any, data: Mapping[str, Any], site: Site, whole: list[bool]) -> bool:
    """Everything has its name now: tell so, before others look for it under the old one."""
    try:
        look(host, data, site)
    except (ConnectionError, SparkwrightError) as error:
        return push_child.failed(host, str(error))
    _tell(host, site)
    whole.append(True)
    return True


def _tell(host: Any, site: Site) -> None:
    if host.name in site.giving:
        spread_run.run_on(host, push_give.announced(site, host))
