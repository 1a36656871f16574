"""Operations on the fabric: configure it with a way back, and prove that members are reached."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyinfra import host as current_host
from pyinfra import logger
from pyinfra import state as current_state
from pyinfra.api import FunctionCommand, operation

from sparkwright import fabric, fabric_judge, interrupts, report
from sparkwright.digest import digest
from sparkwright.errors import Problems
from sparkwright.facts import ask
from sparkwright.operations import Commands, as_pyinfra, failing, guarded
from sparkwright.paths import LIB, RUN
from sparkwright.push_ssh import ssh_words
from sparkwright.resources import Command, File, quote, write_file
from sparkwright.rollout_run import absent

PLACE: Final = f"{RUN}/fabric"
UNIT: Final = "sparkwright-fabric.service"
# networkd has an interface ready within a second or two; our choice.
SETTLE_S: Final = 20
# netplan generate and apply (fabric_links.py's limit), and the same on the way back.
APPLY_S: Final = 3 * 90 + SETTLE_S
# ARP and a switch's learning; peers were configured by the operation before (our choice).
REACH_S: Final = 15
# What our file says on a machine that left its cluster.
NOTHING: Final = "# Managed by sparkwright\nnetwork:\n  version: 2\n"


@operation()
@guarded
def configured(data: Mapping[str, Any]) -> Commands:
    """
    Make the fabric's interfaces be as wanted, now and after a reboot; never the way in of SSH.

    + data: the machine's pyinfra data
    """
    cluster, problems = data["cluster"], Problems()
    told, state = ask(current_host, [{"kind": "path", "path": fabric.FILE}, fabric.probe(data)])
    seen = fabric.read(state)
    chosen = fabric.halves(cluster, cluster["rank"], seen, problems)
    fabric.refused(chosen, seen, data["fabric_speed_mbps"], problems)
    file = File(fabric.FILE, fabric.netplan_text(cluster, chosen), mode="0600")
    live = fabric.drift(cluster, chosen, seen)
    if live and file.edited(told):
        members = [member["name"] for member in cluster["members"]]
        fabric_judge.together(cluster, absent(current_state, current_host, members), problems)
    if len(problems):
        for problem in problems:
            report.record("problem", current_host, str(problem))
        yield failing("\n".join(map(str, problems)))
        return
    found = [*file.drift([told]), *live]
    if not found:
        current_host.noop(f"{fabric.FILE} is in force")
        return
    report.drift(current_host, found)
    wanted = [[half.interface, half.address, cluster["mtu"]] for half in chosen]
    yield from _trial(data, file.content, wanted, seen["ssh"])


@operation()
@guarded
def left(data: Mapping[str, Any]) -> Commands:
    """
    Take the fabric's addresses off a machine that is in no cluster: another may have them now.

    + data: the machine's pyinfra data
    """
    told = ask(current_host, [{"kind": "path", "path": fabric.FILE}])[0]
    if told["type"] == "missing" or not File(fabric.FILE, NOTHING, mode="0600").drift([told]):
        current_host.noop("is in no cluster")
        return
    report.drift(current_host, [f"{fabric.FILE}: is in no cluster any more"])
    seen = fabric.read(ask(current_host, [fabric.probe(data)])[0])
    yield from _trial(data, NOTHING, [], seen["ssh"])


def _trial(
    data: Mapping[str, Any], text: str, wanted: list[list[Any]], ssh: Sequence[str]
) -> Commands:
    """Commands that begin the trial on the machine, and the laptop's part of it."""
    seconds = int(data["fabric_confirm_s"])
    token = digest({"text": text, "at": time.time()})
    spec = {
        "token": token,
        "text": text,
        "file": fabric.FILE,
        "interfaces": wanted,
        "ssh": list(ssh),
        "settle_s": SETTLE_S,
        "confirm_s": seconds,
        "place": PLACE,
        "trial": "/run/netplan",
    }
    # The fresh login need not be root's: it may write into this one directory.
    doors = (
        f"install -d -m 0755 {RUN} {PLACE} && systemctl --quiet stop {UNIT} 2>/dev/null; "
        f"rm -rf {PLACE}/confirm {PLACE}/state && "
        f'install -d -m 0700 -o "${{SUDO_UID:-0}}" {PLACE}/confirm'
    )
    start = (
        f"systemd-run --quiet --collect --unit={UNIT} "
        f"python3 {LIB}/fabric_apply.py {PLACE}/spec.json"
    )
    content = json.dumps(spec, indent=1).encode()
    yield as_pyinfra(Command(doors))
    yield as_pyinfra(write_file(f"{PLACE}/spec.json", content, "root", "root", "0600"))
    yield as_pyinfra(Command(start))
    yield FunctionCommand(confirm, [data, token, seconds], {})


def confirm(state: Any, host: Any, data: Mapping[str, Any], token: str, seconds: int) -> bool:
    """Log in anew, again and again, until the trial is over; True when the change stays."""
    look = (
        f"cd {PLACE} && if grep -q '^applied {token}' state; then : >confirm/{token}; fi; cat state"
    )
    words = [*ssh_words(data), f"sh -c {quote(look)}"]
    ends, told = time.monotonic() + seconds + APPLY_S, ""
    while time.monotonic() < ends and not interrupts.came():
        told = _login(words)
        word, _, why = told.strip().partition(f" {token}")
        if word == "kept":
            return True
        if word == "back":
            return _failed(host, f"{why.strip()}; everything was put back as it was")
        time.sleep(0.5)
    return _failed(
        host,
        f"the change was not confirmed; the machine takes it back {seconds} s after it: "
        f"journalctl -u {UNIT}",
    )


def _login(words: Sequence[str]) -> str:
    """What a fresh login says; nothing when there is none."""
    try:
        done = subprocess.run(  # noqa: S603 - OpenSSH with our own words
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=15
        )
    except subprocess.TimeoutExpired:
        return ""
    return done.stdout


def _failed(host: Any, why: str) -> bool:
    report.record("problem", host, f"{fabric.WHERE}: {why}")
    logger.error(f"{host.print_prefix}{fabric.WHERE}: {why}")
    return False


@operation()
@guarded
def reached(data: Mapping[str, Any]) -> Commands:
    """
    Prove that every other member answers whole packets on every half.

    + data: the machine's pyinfra data
    """
    cluster = data["cluster"]
    seen = fabric.read(ask(current_host, [fabric.probe(data, fabric_judge.pings(cluster))])[0])
    wrong = fabric_judge.unreached(cluster, seen)
    if not wrong:
        current_host.noop("every member answers whole packets")
        return
    report.drift(current_host, wrong)
    yield FunctionCommand(prove, [data], {})


def prove(state: Any, host: Any, data: Mapping[str, Any]) -> bool:
    """Ask again for a while; True when all answer."""
    cluster, ends = data["cluster"], time.monotonic() + REACH_S
    question = fabric.probe(data, fabric_judge.pings(cluster))
    while True:
        try:
            wrong = fabric_judge.unreached(cluster, fabric.read(ask(host, [question])[0]))
        except ConnectionError as error:
            return _failed(host, str(error))
        if not wrong:
            logger.info(f"{host.print_prefix}fabric: every member answers whole packets")
            return True
        if time.monotonic() > ends or interrupts.came():
            break
    for line in wrong:
        _failed(host, line)
    return False
