"""What differs between the wanted unit and the machine, and the commands that mend it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sparkwright.resources import Command, File, State, quote, write_file
from sparkwright.site import UNIT_DIR, Planned
from sparkwright.units import Service, render_unit


@dataclass(frozen=True)
class ServePlan:
    """Differences of one unit and the commands that mend them.

    + start: the unit must be (re)started and watched until it serves
    """

    drift: tuple[str, ...]
    commands: tuple[Command, ...]
    start: bool


def plan(item: Planned, service: Service, states: Sequence[State]) -> ServePlan:
    """
    Compare unit file, boot state and running process with what is wanted.

    The unit's digest includes its own text, so a change of any line restarts it.
    """

    text = render_unit(service)
    name = f"{service.name}.service"
    unit = states[5]
    file = File(f"{UNIT_DIR}/{name}", text)
    changed = file.drift([states[4]])
    # Only drop-ins of this unit: one in service.d/ is the system's, and meant for all services.
    dropins = [d for d in unit.get("DropInPaths", "").split() if f"/{name}.d/" in d]
    boot = _boot(item, unit, name)
    run, start = _running(item, unit, service, name)
    # What runs may have been started with the drop-in, or with the edited text when systemd has
    # read that; its digest cannot tell.
    edited = "content differs" in " ".join(changed) and unit.get("NeedDaemonReload") != "yes"
    start = start or (unit.get("ActiveState") == "active" and (edited or bool(dropins)))
    drift = [*changed, *[f"{d}: a drop-in changes {name}" for d in dropins], *boot[0], *run]
    commands = [c for d in dropins for c in _set_aside(d)]
    if changed:
        commands += [*_verified(name, text), *file.fix([states[4]])]
    if changed or dropins or unit.get("NeedDaemonReload") == "yes":
        commands.append(Command("systemctl daemon-reload"))
    if unit.get("NeedDaemonReload") == "yes" and not changed:
        drift.append(f"{name}: systemd has not read its file again")
    if start:
        commands.append(
            Command(
                f"install -d -o {service.user} -g {service.user} -m 0750 {quote(service.cache_dir)}"
            )
        )
        commands.append(
            Command(
                f"systemctl reset-failed {name} 2>/dev/null; systemctl restart --no-block {name}"
            )
        )
    return ServePlan(tuple(drift), (*commands, *boot[1]), start)


def _boot(item: Planned, unit: State, name: str) -> tuple[list[str], list[Command]]:
    """Whether the unit comes up at boot: running ones do, standby ones do not."""
    wanted = "enabled" if item.state == "running" else "disabled"
    have = unit.get("UnitFileState") or "absent"
    if have == wanted:
        return [], []
    verb = "enable" if wanted == "enabled" else "disable"
    return [f"{name}: {have}, not {wanted}"], [Command(f"systemctl --quiet {verb} {name}")]


def _running(item: Planned, unit: State, service: Service, name: str) -> tuple[list[str], bool]:
    """Whether the process that runs is the wanted one."""
    active = unit.get("ActiveState") == "active"
    if active and unit.get("digest") != service.digest:
        return [f"{name}: runs {unit.get('digest') or 'no digest'}, not {service.digest}"], True
    if item.state == "running" and not active:
        return [f"{name}: {unit.get('ActiveState', 'absent')}, not active"], True
    return [], False


def _set_aside(dropin: str) -> list[Command]:
    """Take a drop-in out of use without losing it: systemd reads only *.conf."""
    return [Command(f"mv -f {quote(dropin)} {quote(dropin + '.set-aside-by-sparkwright')}")]


def _verified(name: str, text: str) -> list[Command]:
    """Let systemd read the text first; any printed line fails, since its exit status is 0."""
    place = f"/run/sparkwright/verify/{name}"
    check = (
        f"out=$(systemd-analyze verify {place} 2>&1); rm -f {place}; "
        '[ -z "$out" ] || { printf "%s\\n" "$out" >&2; exit 1; }'
    )
    return [
        Command("install -d -m 0755 /run/sparkwright/verify"),
        write_file(place, text.encode(), "root", "root", "0644"),
        Command(check),
    ]
