"""Operations on served recipes: converge the unit, ask the question, remove what is retired."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pyinfra import host as current_host
from pyinfra import logger
from pyinfra.api import FunctionCommand, operation

from sparkwright import report, serve_plan, serving
from sparkwright.endpoint import ask_line
from sparkwright.engines import Place
from sparkwright.facts import ask
from sparkwright.operations import Commands, as_pyinfra, failing, guarded
from sparkwright.paths import LIB, RUN
from sparkwright.preflight_seen import OURS
from sparkwright.resources import Command, quote, write_file
from sparkwright.serve_watch import explain, watch_start
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
    found = serving.seen(item, ask(current_host, serving.probes(item, place)))
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
    found = serving.seen(item, states)
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
        report.record("endpoint", current_host, ask_line(item, current_host.data.dict()))
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
    report.record("endpoint", host, ask_line(item, host.data.dict()))
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
