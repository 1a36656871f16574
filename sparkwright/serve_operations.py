"""Operations on served recipes: converge the unit, ask the question, remove what is retired."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from pyinfra import host as current_host
from pyinfra import logger
from pyinfra.api import FunctionCommand, operation

from sparkwright import interrupts, journal, report, serve_plan, serving
from sparkwright.engines import Place
from sparkwright.facts import ask
from sparkwright.job_operations import POLL_S, SAY_EVERY_S
from sparkwright.operations import Commands, as_pyinfra, failing, guarded
from sparkwright.paths import LIB, RUN
from sparkwright.preflight_seen import OURS
from sparkwright.resources import Command, quote, write_file
from sparkwright.site import UNIT_DIR, Planned
from sparkwright.unit_lint import linted


@operation()
@guarded
def served(item: Planned, all_items: Sequence[Planned], place: Place) -> Commands:
    """
    Make one recipe's unit be as wanted: file, boot state, and the process that runs.

    What the installed build would refuse, or pass over, stops this before the unit is touched.

    + item: the recipe on this machine
    + all_items: every recipe of this machine, for the memory plan
    + place: paths and account
    """
    found = serving.seen(ask(current_host, serving.probes(item, place)))
    have, launch = serving.launched(item, place, found)
    service = serving.service_of(item, all_items, place, found)
    wanted = serve_plan.plan(item, service, found)
    # A unit that is as wanted was judged when it was written.
    if refused := launch.refused or (wanted.drift and linted(service, have.facts)):
        wrong = [*(f"{item.unit}: {what}" for what in refused), f"{item.unit}: was not touched"]
        report.drift(current_host, wrong[:-1])
        yield FunctionCommand(refuse, [wrong], {})
        return
    if not wanted.drift:
        current_host.noop(f"{service.name} runs {service.digest}")
        return
    report.drift(current_host, list(wanted.drift))
    yield from map(as_pyinfra, wanted.commands)
    if wanted.start:
        yield FunctionCommand(watch_start, [f"{service.name}.service", item], {})


def refuse(state: Any, host: Any, wrong: Sequence[str]) -> bool:
    """Say why a unit was left as it is, and fail."""
    for line in wrong:
        report.record("problem", host, line)
        logger.error(f"{host.print_prefix}{line}")
    return False


def watch_start(state: Any, host: Any, name: str, item: Planned) -> bool:
    """Follow a start until the unit serves (its health gate has passed) or fails."""
    try:
        return _follow(host, name, item)
    except ConnectionError:
        report.record("problem", host, f"{name}: the connection was lost while it started")
        logger.error(f"{host.print_prefix}{name}: the connection was lost; run again")
        return False


def _follow(host: Any, name: str, item: Planned) -> bool:
    began = said = time.monotonic()
    while True:
        unit = ask(host, [{"kind": "unit", "name": name}])[0]
        now = unit.get("ActiveState")
        waited = time.monotonic() - began
        if now == "active":
            logger.info(f"{host.print_prefix}{name}: serves after {waited:.0f} s")
            return True
        if now not in ("activating", "deactivating", "reloading") or (
            unit.get("SubState") == "auto-restart"
        ):
            explain(host, name, f"is {now} ({unit.get('Result')})")
            return False
        if time.monotonic() - said >= SAY_EVERY_S:
            logger.info(
                f"{host.print_prefix}{name}: loading for {waited:.0f} s of at most "
                f"{item.recipe.load_timeout_s} s"
            )
            said = time.monotonic()
        if interrupts.came():
            return False
        time.sleep(POLL_S)


def explain(host: Any, name: str, what: str) -> None:
    """Say what is wrong with a unit and show what its journal says about it."""
    argv = ["journalctl", "--no-pager", "-o", "cat", "-n", str(journal.LOOK_BACK), "-u", name]
    log = ask(host, [{"kind": "run", "argv": argv}])[0].get("out", "")
    report.record("problem", host, f"{name}: {what}")
    logger.error(
        f"{host.print_prefix}{name}: {what}; its journal:\n{journal.shown(log)}\n"
        f"see `journalctl -u {name}` on {host.name}"
    )


@operation()
@guarded
def accepted(item: Planned, place: Place) -> Commands:
    """
    Ask the recipe's question once after each start; the answer is kept with the start's id.

    + item: the recipe on this machine
    + place: paths and account
    """

    record = f"{serving.ACCEPTED}/{item.unit}.json"
    *states, kept = ask(
        current_host,
        [*serving.probes(item, place), {"kind": "path", "path": record, "text": True}],
    )
    found = serving.seen(states)
    unit = found.unit
    if unit.get("ActiveState") != "active":
        if item.state == "running":
            report.drift(current_host, [f"{item.unit}: not accepted, it does not run"])
            yield failing(f"{item.unit}: cannot be asked, it is {unit.get('ActiveState')}")
        else:
            current_host.noop(f"{item.unit} is on standby")
        return
    spec = serving.question(item, place, found)
    if kept.get("text") and _same(kept["text"], spec):
        current_host.noop(f"{item.unit} answered after this start")
        return
    report.drift(current_host, [f"{item.unit}: has not answered its question since this start"])
    path = f"{RUN}/ask-{item.unit}.json"
    yield as_pyinfra(Command(f"install -d -m 0755 {RUN}"))
    yield as_pyinfra(write_file(path, json.dumps(spec).encode(), "root", "root", "0600"))
    yield FunctionCommand(judge, [item, path], {})


def _same(text: str, spec: Mapping[str, Any]) -> bool:
    try:
        kept = json.loads(text)
    except ValueError:
        return False
    wanted = {key: spec[key] for key in ("invocation", "asked")}
    return {key: kept.get(key) for key in wanted} == wanted


def judge(state: Any, host: Any, item: Planned, place: str) -> bool:
    """Run the question on the machine and print what came of it."""
    state_ = ask(host, [{"kind": "run", "argv": ["python3", f"{LIB}/ask.py", place]}])[0]
    try:
        found = json.loads(state_.get("out", ""))
    except ValueError:
        explain(host, f"{item.unit}.service", f"asking failed: {state_.get('err', '')[-300:]}")
        return False
    if found["wrong"]:
        explain(host, f"{item.unit}.service", "not accepted: " + "; ".join(found["wrong"]))
        return False
    role = f" (system message in role: {found['role']})" if found.get("role") else ""
    report.record("accepted", host, f"{item.unit} at port {item.port}{role}")
    logger.info(
        f"{host.print_prefix}{item.unit}: answered {found['content'].strip()[:60]!r}; ready after "
        f"{found['ready_s']} s, first token after {found['ttft_s']} s, "
        f"whole answer {found['total_s']} s{role}"
    )
    return True


@operation()
@guarded
def retired(units: Sequence[str]) -> Commands:
    """
    Stop, disable and remove units of ours that the fleet no longer lists; weights stay.

    + units: names (without .service) that stay
    """

    found = ask(current_host, [{"kind": "run", "argv": OURS}])[0].get("out", "").split()
    ours = [path for path in found if path.rsplit("/", 1)[0] == UNIT_DIR]
    gone = sorted(
        path.rsplit("/", 1)[1]
        for path in ours
        if path.rsplit("/", 1)[1].removesuffix(".service") not in units
    )
    if not gone:
        current_host.noop("no unit of ours is left over")
        return
    report.drift(current_host, [f"{name}: no longer in the fleet" for name in gone])
    for name in gone:
        record = f"{serving.ACCEPTED}/{name.removesuffix('.service')}.json"
        yield as_pyinfra(Command(f"systemctl --quiet disable --now {quote(name)}"))
        yield as_pyinfra(Command(f"rm -f {quote(f'{UNIT_DIR}/{name}', record)}"))
    yield as_pyinfra(Command("systemctl daemon-reload"))
