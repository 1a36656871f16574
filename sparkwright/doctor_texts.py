"""What `sparkwright doctor` reads on a machine, and the texts that causes are searched in. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from sparkwright.fleet_ssh import is_loopback
from sparkwright.site import planned
from sparkwright.status_rows import MachineRow, Row
from sparkwright.support_report import LIMIT
from sparkwright.verify_checks import Check

LINES: Final = "600"  # a failed start of vLLM writes about 300 (measured, 0.32.0)
_JOURNAL: Final = ("journalctl", "--no-pager", "--no-hostname", "-o", "cat")
_ANY: Final = ("0.0.0.0", "::")  # noqa: S104 - compared with, not listened on
# The last words of a boot that ended in order: journald's own, or a target's of systemd.
ENDED: Final = re.compile(
    r"^Journal stopped|Reached target .*(?:Power Off|Power-Off|Reboot|Halt|Shutdown)", re.M
)
Texts = dict[str, dict[str, str]]


def question(name: str, data: Mapping[str, Any]) -> tuple[str, str]:
    """What a machine is asked, by the program that collects reports too."""
    commands = {
        item.unit: [*_JOURNAL, "-n", LINES, "-u", f"{item.unit}.service"] for item in planned(data)
    }
    commands |= {
        "kernel": [*_JOURNAL, "-k", "-b", "-n", LINES],
        "before": [*_JOURNAL, "-k", "-b", "-1", "-n", LINES],
        # systemd itself: it tells of every unit, of those as well that are not ours.
        "storms": [*_JOURNAL, "-b", "-1", "-n", LINES, "_PID=1"],
        "ended": [*_JOURNAL, "-b", "-1", "-n", "100"],
        "gpu": ["nvidia-smi", "-q", "-d", "PERFORMANCE"],
        "address": ["ip", "-o", "address"],
    }
    spec = {"commands": commands, "files": {}, "limit": LIMIT,
            "secrets": [f"{data['etc_dir']}/api-key"]}  # fmt: skip
    return "status_report.py", json.dumps(spec)


def texts(
    machine: MachineRow,
    data: Mapping[str, Any],
    said: Mapping[str, str],
    checks: Sequence[Check],
    workers: Sequence[str] = (),
) -> Texts:
    """
    Kind of text -> recipe, or "" for the machine itself -> text.

    + said: answers to `question`
    + checks: what `sparkwright verify` found here
    + workers: recipes of which this machine has a part that its head starts and stops
    """
    made: Texts = {name: {"": said[name]} for name in ("kernel", "before", "storms", "gpu")}
    rows = machine.rows
    made["journal"] = {row.recipe: journal(row, said[f"llm-{row.recipe}"]) for row in rows}
    made["stopped"] = {row.recipe: "" if row.recipe in workers else _stopped(row, said)
                       for row in rows}  # fmt: skip
    made["checks"] = {row.recipe: _wrong(row, checks) for row in rows}
    made["absent"] = {"": _absent(data, said["gpu"])}
    made["ended"] = {"": _ended(said["ended"])}
    made["address"] = {row.recipe: _elsewhere(row, said["address"]) for row in rows}
    made["loopback"] = {row.recipe: _loopback(row) for row in rows}
    return made


def journal(row: Row, text: str) -> str:
    """A unit's journal since it last came up, for what was before has been mended.

    One that runs counts from its start, and from the start before when systemd started it again by
    itself: a crash at the first request is in the past when somebody looks.
    """
    if row.state != "running":
        begin = text.rfind("\nStarted llm-")
        return text[max(0, begin) :]
    begin = len(text)
    for _ in range(1 + (row.restarts or 0)):
        begin = text.rfind("\nStarting llm-", 0, max(0, begin))
    return text[max(0, begin) :]


def _wrong(row: Row, checks: Sequence[Check]) -> str:
    """Checks that failed, a line each."""
    mine = (c for c in checks if c.recipe == row.recipe and c.ok is False)
    return "\n".join(f"{check.name}: {' '.join(check.seen.split())}" for check in mine)


def ran(said: str) -> bool:
    """Whether a command ran and ended well."""
    return "(exit 0)" in said.split("\n", 1)[0]


def _absent(data: Mapping[str, Any], gpu: str) -> str:
    """A GPU that is expected and not there, whatever the engines say."""
    if not data["gpu_required"] or ran(gpu):
        return ""
    return f"nvidia-smi: {gpu.strip().splitlines()[-1]}"


def _ended(text: str) -> str:
    """Whether the boot before this one ended in order; nothing when there was none."""
    if not ran(text) or ENDED.search(text):
        return ""
    return f"no shutdown; its last line: {text.strip().splitlines()[-1]}"


def _stopped(row: Row, said: Mapping[str, str]) -> str:
    """A unit that is wanted, does not run, and did not fail; with the line that says when."""
    if (row.state, row.result) != ("stopped", "success"):
        return ""
    told = re.findall(r"^Stopped .*", said[f"llm-{row.recipe}"], re.M)
    return "inactive, and nothing failed" + (f": {told[-1]}" if told else "")


def workers(data: Mapping[str, Any]) -> tuple[str, ...]:
    """Recipes of a machine that another machine heads."""
    return tuple(i.recipe.name for i in planned(data) if i.member and not i.member.is_head)


def _elsewhere(row: Row, shown: str) -> str:
    """An address to listen on that no interface has."""
    have = re.findall(r"\binet6? ([0-9a-f.:]+)", shown)
    anywhere = is_loopback(row.listen) or row.listen in (*_ANY, *have)
    if not have or anywhere or row.state in ("running", "standby"):
        return ""
    return f"listens on {row.listen}; the machine has {', '.join(have)}"


def _loopback(row: Row) -> str:
    """A server that only the machine itself reaches."""
    alone = row.state == "running" and is_loopback(row.listen)
    return f"listens on {row.listen}, port {row.port}" if alone else ""
