"""Has machines give what they have of a bundle, and ends that."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import gevent

from sparkwright import push_wire, report, spread, spread_run, spread_wire
from sparkwright.push_site import WHAT, Site
from sparkwright.resources import Command
from sparkwright.sources import source_of


def addresses(state: Any, site: Site, own: Mapping[str, Any], name: str) -> list[str]:
    """Where a machine reaches another: by what is set up there now, and as the laptop does."""
    other = spread_run.data_of(state.inventory.get_host(name))
    found = spread.addresses(own, other)
    return [a for a in found if a in site.members[name].own or a == str(other["lan"])]


def give(state: Any, site: Site, name: str) -> None:
    """Have a machine give what it has and what it receives; a note when it cannot."""
    if name in site.giving:
        return
    site.giving[name] = time.monotonic()
    site.touched.add(name)
    host = state.inventory.get_host(name)
    data = spread_run.data_of(host)
    place, own = source_of(data).directory, spread.own_addresses(data)
    commands = [announced(site, host), push_wire.serve(place, data["spread_port"], own)]
    done, out = run_all(host, commands)
    if not done:
        site.member(name).mute = True
        report.note(host, f"cannot give {WHAT} to others: {spread_run.last(out)}")


def announced(site: Site, host: Any) -> Command:
    """Tell a machine what it gives, and where that lies."""
    place = source_of(host.data.dict()).directory
    secret = spread_wire.token(spread_run.secret(), site.item)
    return push_wire.announce(site, site.member(host.name), place, secret)


def run_all(host: Any, commands: list[Command]) -> tuple[bool, str]:
    """Run commands until one fails; (whether all went well, the output of that one)."""
    for command in commands:
        done, out = spread_run.run_on(host, command)
        if not done:
            return False, out
    return True, ""


def end(state: Any, site: Site) -> None:
    """Nobody is at work any more: servers, programs and tokens go, a dead run's as well."""
    names = sorted(name for name in site.touched if not site.members[name].gone)
    # Who comes later has them give it again.
    site.giving.clear()
    site.touched.clear()
    hosts = [state.inventory.get_host(name) for name in names]
    gevent.joinall([gevent.spawn(spread_run.run_on, host, push_wire.end()) for host in hosts])
