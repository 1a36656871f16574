"""Operations that bring a bundle's files to a machine, or ask a mirror whether it has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyinfra import host as current_host
from pyinfra import state as current_state
from pyinfra.api import FunctionCommand, operation
from pyinfra.api.state import StateStage

from sparkwright import push_child, push_shared, push_wire, report, spread_run
from sparkwright.bundle_layout import Entry
from sparkwright.errors import SparkwrightError
from sparkwright.facts import PYTHON, ask
from sparkwright.operations import Commands, as_pyinfra, failing, guarded
from sparkwright.paths import script
from sparkwright.preflight import GIB
from sparkwright.push_state import Seen, look, program
from sparkwright.sources import source_of


@operation()
@guarded
def pushed(data: Mapping[str, Any]) -> Commands:
    """
    Make a machine hold exactly its part of the bundle.

    + data: the machine's pyinfra data
    """

    place = source_of(data).directory
    with spread_run.asking(current_state, current_host):
        site = push_shared.site_of(current_state, current_host)
        seen = push_shared.look(current_host, data, site)
    extra = sorted(seen.told["have"].keys() - {entry.path for entry in seen.files})
    if not seen.lacking and not extra:
        current_host.noop(f"{len(seen.files)} files of the bundle are here")
        return
    report.drift(current_host, phrases(place, seen.lacking, extra))
    if what := too_little_room(place, seen):
        report.record("problem", current_host, what)
        yield failing(what)
        return
    if current_state.current_stage != StateStage.Execute:
        site = None
    with push_shared.attending(current_state, current_host, site) as whole:
        if site:
            spread_run.gather(current_state)
        yield as_pyinfra(push_wire.stop_copies())
        yield as_pyinfra(program("prepare", place, seen.files))
        if site:
            yield FunctionCommand(push_shared.bring, [data, site], {})
        else:
            yield FunctionCommand(send, [data], {})
        yield as_pyinfra(program("settle", place, seen.files))
        if site:
            yield FunctionCommand(push_shared.settled, [data, site, whole], {})


def too_little_room(place: str, seen: Seen) -> str:
    """Why nothing is sent: the disk; "" when it has room."""
    size, told = sum(entry.size for entry in seen.lacking), seen.told
    short = size - told["arrived"] - told["free"]
    if short <= 0:
        return ""
    wanted = f"{size / GIB:.1f} GiB are missing, {told['free'] / GIB:.1f} GiB are free"
    return f"{place}: {wanted}; free {short / GIB:.1f} GiB more; nothing was sent"


def phrases(place: str, lacking: Sequence[Entry], extra: Sequence[str]) -> list[str]:
    """What differs, a line for each part of the bundle: files may be thousands."""
    lines = []
    for top in sorted({entry.path.split("/", 1)[0] for entry in lacking}):
        those = [entry for entry in lacking if entry.path.split("/", 1)[0] == top]
        size = sum(entry.size for entry in those) / 1e6
        more = f" and {len(those) - 1} more" if len(those) > 1 else ""
        lines.append(f"{place}: lacks {those[0].path}{more} ({size:.1f} MB)")
    if extra:
        lines.append(f"{place}: {len(extra)} files no longer belong here, such as {extra[0]}")
    return lines


def send(state: Any, host: Any, data: Mapping[str, Any]) -> bool:
    """Send what is still missing; True when everything arrived."""
    try:
        lacking = look(host, data).lacking
    except (ConnectionError, SparkwrightError) as error:
        return push_child.failed(host, str(error))
    return push_child.sent(host, data, lacking) if lacking else True


@operation()
@guarded
def mirrored(url: str, lock_sha256: str) -> Commands:
    """
    Stop this machine, before anything is touched, when the mirror is not the bundle of this lock.

    + url: of the mirror; lock_sha256: of the fleet's lock file
    """

    words = [*PYTHON, script("push_mirror.py"), url, lock_sha256]
    seen = ask(current_host, [{"kind": "run", "argv": words}])[0]
    if seen.get("rc") == 0:
        current_host.noop("the mirror has the bundle of this lock")
        return
    why = (seen.get("out") or seen.get("err") or "no answer").strip().splitlines()[-1]
    report.record("problem", current_host, why)
    yield failing(why)
