"""Memory budgets: what may run together on one spark.

Exhaustion on GB10 wedges the machine without an out-of-memory kill
(open-gpu-kernel-modules#1358), and CUDA allocations escape MemoryMax= (minefield#57), so budgets
are added up before anything starts.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sparkwright.errors import Problems

RUNNING = "running"
STANDBY = "standby"


@dataclass(frozen=True)
class Need:
    """What one unit needs.

    + name: unit name without ".service"
    + memory_gib: the recipe's budget, GiB
    + state: "running" (enabled, started) or "standby" (started by hand)
    """

    name: str
    memory_gib: float
    state: str


@dataclass(frozen=True)
class MemoryPlan:
    """Budgets that fit, and who stops whom.

    + available_gib: what budgets may use together, GiB
    + running_gib: sum of the running units, GiB
    + conflicts: for every unit the ones that it names in Conflicts= and After=
    """

    available_gib: float
    running_gib: float
    conflicts: Mapping[str, tuple[str, ...]]


def plan(served: Sequence[Need], available_gib: float, where: str = "memory") -> MemoryPlan:
    """Check the budgets of one spark and say which units exclude each other.

    + available_gib: the machine's memory less the reserve, GiB
    + where: the place in messages, such as "sparks.yaml: sparks/spark-1/serve"

    A standby unit that does not fit beside all running ones excludes all of them; two standby units
    exclude each other unless everything listed fits at once. Only one unit of a pair names the
    other: Conflicts= acts in both directions, and with an ordering between two units, whichever of
    them has it, the stop of one comes before the start of the other (systemd.unit(5), Conflicts=
    and Before=). So the text, and with it the digest, of a running unit stays the same when a
    standby one comes or goes.

    Raises SparkwrightError with all problems: a unit too big for the machine, a sum of running
    units that does not fit, a bad state, a name given twice.
    """
    problems = Problems()
    _check_each(served, available_gib, where, problems)
    running = sorted((need for need in served if need.state == RUNNING), key=lambda n: n.name)
    standby = sorted((need for need in served if need.state == STANDBY), key=lambda n: n.name)
    running_gib = _sum(running)
    if len(running) > 1 and running_gib > available_gib:
        parts = " + ".join(f"{need.name} {need.memory_gib:g}" for need in running)
        problems.add(
            where,
            f"running units need {running_gib:g} GiB together ({parts}), "
            f"the machine has {available_gib:g} GiB for them",
            "set state: standby for some, or serve them from another spark",
        )
    problems.raise_if_any()
    return MemoryPlan(available_gib, running_gib, _conflicts(running, standby, available_gib))


def _conflicts(
    running: Sequence[Need], standby: Sequence[Need], available_gib: float
) -> dict[str, tuple[str, ...]]:
    conflicts: dict[str, tuple[str, ...]] = {need.name: () for need in running}
    all_fit = _sum([*running, *standby]) <= available_gib
    for index, need in enumerate(standby):
        beside = _sum([*running, need]) <= available_gib
        others = itertools.chain([] if beside else running, [] if all_fit else standby[:index])
        conflicts[need.name] = tuple(other.name for other in others)
    return conflicts


def _check_each(
    served: Sequence[Need], available_gib: float, where: str, problems: Problems
) -> None:
    seen: set[str] = set()
    for need in served:
        place = f"{where}/{need.name}"
        if need.name in seen:
            problems.add(place, "is listed twice", "remove one, or rename one")
        seen.add(need.name)
        if need.state not in (RUNNING, STANDBY):
            problems.add(place, f"state is {need.state!r}", f"say {RUNNING} or {STANDBY}")
        if not need.memory_gib > 0:
            problems.add(place, f"memory_gib is {need.memory_gib:g}", "give a budget above 0")
        elif need.memory_gib > available_gib:
            problems.add(
                place,
                f"needs {need.memory_gib:g} GiB, the machine has {available_gib:g} GiB for units",
                "lower its context or memory_gib, or choose a smaller model",
            )


def _sum(needs: Sequence[Need]) -> float:
    # Rounded to a MiB or so: 0.1 + 0.2 must not exceed 0.3.
    return round(sum(need.memory_gib for need in needs), 3)
