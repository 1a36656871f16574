"""Refuses options with which pyinfra does nothing, or hides a failure, and still exits with 0.

pyinfra 3.10.0, each seen: `--limit TYPO` only warns, runs nothing and exits with 0;
`--exclude TYPO` leaves out nobody; with `--no-wait` failed machines do not reach the exit status.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Mapping, Sequence

import click

from sparkwright.errors import Problems, nearest

Members = Mapping[str, Collection[str]]  # group name -> host names; "all" is one of them


def matches(name: str, members: Members) -> set[str]:
    """The hosts that pyinfra would take for one word of --limit: a group's, or those of a pattern.

    A pattern is compared with host names only; `rack-*` does not find the group rack-a.
    """
    if name in members:
        return set(members[name])
    hosts = {host for group in members.values() for host in group}
    return {host for host in hosts if fnmatch.fnmatch(host, name)}


def refuse(limit: Sequence[str], exclude: Sequence[str], members: Members) -> None:
    """
    Check what --limit and --exclude name; raises SparkwrightError with every problem.

    + members: every group with its hosts
    """
    problems = Problems()
    known = {*members, *(host for group in members.values() for host in group)}
    for option, words in (("--limit", limit), ("--exclude", exclude)):
        for name in words:
            if not matches(name, members):
                problems.add(option, f"no spark or group named {name}", nearest(name, known))
    chosen = _union(limit, members) if limit else _union(list(members), members)
    if not len(problems) and chosen and not chosen - _union(exclude, members):
        problems.add("--exclude", "leaves no spark at all", "name fewer")
    problems.raise_if_any()


def refuse_pyinfra_options(members: Members, inventory: str = "inventory") -> None:
    """
    Check the options of the pyinfra command that is loading this inventory, if there is one.

    + members: groups of the fleet with their hosts
    + inventory: the group that pyinfra adds, named after the inventory's file

    Raises SparkwrightError.
    """
    context = click.get_current_context(silent=True)
    options = context.params if context else {}
    if options.get("no_wait"):
        problems = Problems()
        problems.add("--no-wait", "pyinfra then exits with 0 although machines failed", "drop it")
        problems.raise_if_any()
    everyone = _union(list(members), members)
    full = {**members, "all": everyone, inventory: everyone}
    refuse(options.get("limit") or (), options.get("exclude") or (), full)


def _union(names: Sequence[str], members: Members) -> set[str]:
    return {host for name in names for host in matches(name, members)}
