"""What differs between one wanted unit and the machine, and the commands that mend it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sparkwright import pair
from sparkwright.member_units import OwnUnit
from sparkwright.resources import Command, File, State, quote, write_file
from sparkwright.serving import Seen, is_worker, restart_mark
from sparkwright.site import UNIT_DIR, Planned
from sparkwright.units import Service, render_unit


@dataclass(frozen=True)
class ServePlan:
    """Differences of one unit and the commands that mend them.

    + start: the unit must be (re)started and watched until it serves
    + stop: the recipe is standby now, and what the machine runs for it is stopped
    + joint: it differs on the other members of the cluster as well, and changes there with it
    """

    drift: tuple[str, ...]
    commands: tuple[Command, ...]
    start: bool
    joint: bool = False
    stop: bool = False


def compared(item: Planned, service: Service, found: Seen) -> ServePlan:
    """
    Compare unit file, boot state and running process with what is wanted.

    The unit's digest includes its own text, so a change of any line restarts it.
    """

    text = render_unit(service)
    name = f"{service.name}.service"
    unit = found.unit
    file = File(f"{UNIT_DIR}/{name}", text)
    changed = file.drift([found.file])
    dropins = _dropins(unit, found.dropins, name)
    boot = _boot(item, unit, name)
    run, stale = _running(item, found, service, name)
    beside = pair.beside(item, service)
    owed = _owed(found, file, beside, dropins)
    start = stale or bool(owed)
    drift = [*changed, *[f"{d}: a drop-in changes {name}" for d in dropins], *boot[0], *run]
    drift += [f"{name}: {what}" for what in owed if what]
    mark = restart_mark(name) if owed or found.mark.get("type") == "file" else None
    drift += [line for own in beside for line in own.drift(found.ray)]
    commands = [Command(f"install -D -m 0644 /dev/null {mark}")] if owed else []
    commands += [c for d in dropins for c in _set_aside(d)]
    commands += [c for own in beside if own.drift(found.ray) for c in own.fix(found.ray)]
    commands += [*_verified(name, text), *file.fix([found.file])] if changed else []
    if changed or dropins or unit.get("NeedDaemonReload") == "yes":
        commands.append(Command("systemctl daemon-reload"))
    if unit.get("NeedDaemonReload") == "yes" and not changed:
        drift.append(f"{name}: systemd has not read its file again")
    joined = _loading(unit) and not (changed or dropins or owed or mark)
    if is_worker(item):
        # The head has a fresh one started, before itself and in its own turn (pair_link.py).
        start, commands = False, [*commands, *(_cache(service) if changed else [])]
    commands += _start(service, name, mark) if start and not joined else []
    return ServePlan(tuple(drift), (*commands, *boot[1]), start)


def _loading(unit: State) -> bool:
    """A start is under way with the text that systemd has read; it is joined, not begun again."""
    starting = unit.get("ActiveState") == "activating" and unit.get("SubState") != "auto-restart"
    return starting and unit.get("NeedDaemonReload") != "yes"


def _dropins(unit: State, found: State, name: str) -> list[str]:
    """Drop-ins of this unit alone: one in service.d/ is the system's, and meant for all services.

    + found: what lies in the directories; systemd names only those that it has read
    """
    paths = [*unit.get("DropInPaths", "").split(), *found.get("out", "").splitlines()]
    return sorted({path for path in paths if f"/{name}.d/" in path})


def _owed(found: Seen, file: File, beside: Sequence[OwnUnit], dropins: Sequence[str]) -> list[str]:
    """Why a process of the right digest must be restarted all the same, a phrase each.

    It may have been started with the drop-in, or with the edited text when systemd has read that:
    both have phrases of their own, and none here. The mark outlives a run that dies between
    mending the text and the restart.

    + file: of the unit; beside: units whose processes are part of the model
    """
    unit = found.unit
    if unit.get("ActiveState") != "active":
        return []
    texts = [(file, found.file, unit)]
    texts += [(own.file, found.ray[0], found.ray[1]) for own in beside]
    edited = any(
        text.edited(told) and state.get("NeedDaemonReload") != "yes" for text, told, state in texts
    )
    read = set(dropins) & set(unit.get("DropInPaths", "").split())
    owes = found.mark.get("type") == "file"
    words = ["owes a restart since its unit was mended"] if owes else []
    return [*words, *([""] if edited or read else [])]


def _start(service: Service, name: str, mark: str | None) -> list[Command]:
    """Start or restart without waiting: a load takes minutes, and the laptop follows it.

    + mark: the restart mark, which is gone once the restart is under way
    """
    restart = f"systemctl reset-failed {name} 2>/dev/null; systemctl restart --no-block {name}"
    return [*_cache(service), Command(f"{restart} && rm -f {mark}" if mark else restart)]


def _cache(service: Service) -> list[Command]:
    own = f"-o {service.user} -g {service.user}"
    return [Command(f"install -d {own} -m 0750 {quote(service.cache_dir)}")]


def _boot(item: Planned, unit: State, name: str) -> tuple[list[str], list[Command]]:
    """Whether the unit comes up at boot: running ones do, standby ones do not.

    A part of several never does by itself: its link starts it when the others are there.
    """
    wanted = "enabled" if item.state == "running" and not item.member else "disabled"
    have = unit.get("UnitFileState") or "absent"
    if have == wanted or (item.member and have in ("static", "absent")):
        return [], []
    verb = "enable" if wanted == "enabled" else "disable"
    return [f"{name}: {have}, not {wanted}"], [Command(f"systemctl --quiet {verb} {name}")]


def _running(item: Planned, seen: Seen, service: Service, name: str) -> tuple[list[str], bool]:
    """Whether the process that runs is the wanted one."""
    unit = seen.unit
    active = unit.get("ActiveState") == "active"
    if active and unit.get("digest") != service.digest:
        return [f"{name}: runs {unit.get('digest') or 'no digest'}, not {service.digest}"], True
    program = unit.get("exe", "")
    if active and program.endswith(" (deleted)"):
        # A build that was damaged and made again: nobody knows which of the two this is.
        return [f"{name}: runs a program that was replaced, {program}"], True
    if is_worker(item):
        return [], False
    if active and (wrong := pair.apart(seen.pair) if item.member else []):
        return [f"{name}: runs without its workers: {what}" for what in wrong], True
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
