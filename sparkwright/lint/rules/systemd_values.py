"""Values that systemd cannot read: it logs a line and keeps the default."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from sparkwright.errors import nearest
from sparkwright.lint.context import Context
from sparkwright.lint.findings import Found, Verdict
from sparkwright.lint.model import Directive, Document
from sparkwright.lint.registry import file_rule
from sparkwright.lint.rules.systemd_known import known_keys, seconds
from sparkwright.lint.rules.systemd_lines import judged

_BOOLEAN: Final = frozenset(
    ("1", "yes", "y", "true", "t", "on", "0", "no", "n", "false", "f", "off")
)
# systemd.service(5), systemd.exec(5), systemd.kill(5), systemd.resource-control(5) of 255; with
# the words that came up to 257.
_WORDS: Final[Mapping[str, str]] = {
    "Restart": "no on-success on-failure on-abnormal on-abort on-watchdog always",
    "Type": "simple exec forking oneshot dbus notify notify-reload idle",
    "KillMode": "control-group process mixed none",
    "OOMPolicy": "continue stop kill",
    "NotifyAccess": "none all exec main",
    "ExitType": "main cgroup",
    "RestartMode": "normal direct debug",
    "DevicePolicy": "auto closed strict",
    "ProtectSystem": "full strict",
    "ProtectHome": "read-only tmpfs",
    "ProtectProc": "noaccess invisible ptraceable default",
    "ProcSubset": "all pid",
    "PrivateTmp": "disconnected",
    "TimeoutStartFailureMode": "terminate abort kill",
    "TimeoutStopFailureMode": "terminate abort kill",
}
_OR_BOOLEAN: Final = frozenset({"ProtectSystem", "ProtectHome", "PrivateTmp"})
_UNIT: Final = re.compile(
    r"\S+\.(service|socket|device|mount|automount|swap|target|path|timer|slice|scope)"
)
_SIZED: Final = frozenset(("AS", "CORE", "DATA", "FSIZE", "MEMLOCK", "MSGQUEUE", "RSS", "STACK"))


@file_rule(Verdict.BLOCK)
def bad_value(doc: Document, ctx: Context) -> Iterator[Found]:
    """A value that systemd cannot read is passed over, and the default stays.

    Words of other programs are the usual reason: `unlimited` for a limit (systemd says
    `infinity`), `100GB` for a size (`100G`), `20mins` for a time (`20min`), `ollama` for a unit
    (`ollama.service`), a relative path. `systemd-analyze verify` prints a line and exits 0.

    Bad:
        LimitMEMLOCK=unlimited

    Good:
        LimitMEMLOCK=infinity

    Source: systemd.exec(5), systemd.service(5), systemd.time(7); jschmied/dgx-spark-setup-guide
    (tried: systemd 252, 257)
    """
    for directive in doc.directives if judged(doc) else ():
        known = known_keys().get(directive.section, {}).get(directive.key)
        value = directive.value
        if (
            known is None
            or not value
            or "%" in value
            or ("#" in value and re.search(r"\s#", value))
        ):
            continue
        fix = _CHECKS.get(known.kind, _nothing)(directive)
        if fix:
            yield Found(
                directive.place(0), f"{directive.key}={value} is nothing that systemd can read: "
                "it passes over it", f"write {fix}", sees="",
            )  # fmt: skip


def _nothing(directive: Directive) -> str:
    return ""


def _boolean(directive: Directive) -> str:
    if directive.value.lower() in _BOOLEAN:
        return ""
    no = re.fullmatch(r"(?i)(disabled?|none|never|-)", directive.value)
    return f"{directive.key}={'no' if no else 'yes'}"


def _word(directive: Directive) -> str:
    key, value = directive.key, directive.value
    words = _WORDS[key].split()
    if value in words or (key in _OR_BOOLEAN and value.lower() in _BOOLEAN):
        return ""
    if key in _OR_BOOLEAN and re.fullmatch(r"(?i)enabled?", value):
        return f"{key}=yes"
    return f"one of {', '.join(words)}: {nearest(value, words)}"


def _time(directive: Directive) -> str:
    if seconds(directive.value) is not None:
        return ""
    if re.fullmatch(r"(?i)never|none|unlimited|inf|forever|-1", directive.value):
        return f"{directive.key}=infinity"
    plain = re.sub(r"(?<=\d)\s*(min|sec|hr)s\b", r"\1", directive.value)
    return f"{directive.key}={plain if seconds(plain) else '20min'}"


def _memory(directive: Directive) -> str:
    if re.fullmatch(r"infinity|\d+(\.\d+)?\s*[KMGTPEB]?|\d+(\.\d+)?%", directive.value):
        return ""
    return f"{directive.key}={_size(directive.value)}"


def _size(value: str) -> str:
    match = re.match(r"(\d+(?:\.\d+)?)\s*([kmgtKMGT])", value)
    return f"{match[1]}{match[2].upper()}" if match else "infinity"


def _limit(directive: Directive) -> str:
    name = directive.key.removeprefix("Limit")
    size = "[KMGTPEB]?" if name in _SIZED else "[a-z]*" if name in ("CPU", "RTTIME") else ""
    part = r"(infinity|[+-]?\d+)" if name == "NICE" else rf"(infinity|\d+{size})"
    if re.fullmatch(rf"{part}(:{part})?", directive.value):
        return ""
    return f"{directive.key}={_size(directive.value) if name in _SIZED else 'infinity'}"


def _units(directive: Directive) -> str:
    wrong = [word for word in directive.value.split() if not _UNIT.fullmatch(word)]
    if not wrong or (directive.section == "Install" and directive.key == "DefaultInstance"):
        return ""
    right = [w.strip(",") if _UNIT.fullmatch(w.strip(",")) else w.strip(",") + ".service"
             for w in directive.value.replace(",", " ").split()]  # fmt: skip
    return f"{directive.key}={' '.join(right)}"


def _path(directive: Directive) -> str:
    paths = directive.value.split() if directive.key.endswith("Paths") else [directive.value]
    wrong = [p for p in paths if not re.match(r"[-+]*[/~\"']", p)]
    return f"an absolute path for {wrong[0]}" if wrong else ""


def _number(directive: Directive) -> str:
    low, high = (-1000, 1000) if directive.key == "OOMScoreAdjust" else (-20, 19)
    if directive.key not in ("OOMScoreAdjust", "Nice"):
        return "" if re.fullmatch(r"\d+", directive.value) else f"{directive.key}=3"
    good = re.fullmatch(r"[+-]?\d+", directive.value) and low <= int(directive.value) <= high
    return "" if good else f"a number from {low} to {high}"


_CHECKS: Final[Mapping[str, Callable[[Directive], str]]] = {
    "bool": _boolean, "enum": _word, "sec": _time, "memory": _memory, "limit": _limit,
    "units": _units, "path": _path, "paths": _path, "workdir": _path, "count": _number,
    "oomscore": _number, "nice": _number,
}  # fmt: skip
