"""What to do to a recipe's unit: mend or stop it, and mend a part's link beside it. Pure."""

from __future__ import annotations

import dataclasses

from sparkwright import pair
from sparkwright.resources import Command
from sparkwright.serving import Seen, is_worker
from sparkwright.site import Planned
from sparkwright.unit_plan import ServePlan, compared
from sparkwright.units import Service

__all__ = ["ServePlan", "plan"]


def plan(item: Planned, service: Service, found: Seen) -> ServePlan:
    """
    Compare a recipe's unit with what is wanted, and the link beside a part of several.

    The link's text has the others' addresses and their port. Replaced without the others', it
    would find nobody, and stop a model that runs: on a worker it comes after all that may fail.
    """
    look = _stopping if _retired(item, found) else compared
    own = look(item, service, found)
    if item.member is None:
        return own
    link = pair.link_unit(item)
    drift = link.drift(found.link)
    commands = link.fix(found.link) if drift else []
    joint = bool(own.drift or link.file.drift(found.link[:1]))
    last = is_worker(item) or own.stop  # the link that is there is why the unit is stopped
    order = (*own.commands, *commands) if last else (*commands, *own.commands)
    return ServePlan((*drift, *own.drift), order, own.start, joint, own.stop)


def _stopping(item: Planned, service: Service, found: Seen) -> ServePlan:
    """What remains to do to a unit that sleeps, behind its stop.

    A run that ends after the stop finds it enabled; one that ended after disabling it first would
    leave what runs to somebody who had started it by hand.
    """
    name = f"{service.name}.service"
    asleep = dataclasses.replace(found, unit={**found.unit, "ActiveState": "inactive"})
    rest = compared(item, service, asleep)
    drift = (f"{name}: runs, and is standby now", *rest.drift)
    commands = (Command(f"systemctl --quiet stop {name}"), *rest.commands)
    return dataclasses.replace(rest, drift=drift, commands=commands, stop=True)


def _retired(item: Planned, found: Seen) -> bool:
    """Whether what runs was to run, and is not any more; what somebody has started by hand stays.

    Only what is to run comes up at boot: its unit does, or the link of a head starts it.
    """
    if item.state == "running" or is_worker(item):
        return False
    if found.unit.get("ActiveState") not in ("active", "activating"):
        return False
    if item.member:
        return pair.starts(found.link)
    return found.unit.get("UnitFileState") == "enabled"
