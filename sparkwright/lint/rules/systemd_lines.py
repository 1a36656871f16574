"""Sections and keys that systemd does not know, and passes over."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from typing import Final

from sparkwright.lint.context import Context
from sparkwright.lint.findings import Found, Verdict
from sparkwright.lint.model import Document
from sparkwright.lint.registry import file_rule
from sparkwright.lint.rules.systemd_known import known_keys
from sparkwright.lint.rules.systemd_reading import SYSTEMD

_TYPES: Final = (
    "service", "socket", "mount", "swap", "timer", "path", "automount", "scope", "slice", "target",
    "device",
)  # fmt: skip
# Podman's generator reads sections of its own there (podman-systemd.unit(5)).
_QUADLET: Final = (".container", ".pod", ".volume", ".network", ".kube", ".image", ".build")


def judged(doc: Document) -> bool:
    """Whether systemd itself reads this file: a unit or drop-in, and none of Podman's."""
    name = doc.unit or doc.path
    return doc.kind in SYSTEMD and not name.endswith(_QUADLET)


def _sections(doc: Document) -> set[str]:
    """Sections that systemd reads in this unit; a drop-in of an unknown unit may have any."""
    kind = (doc.unit or doc.path).rsplit(".", 1)[-1]
    kinds = [kind] if kind in _TYPES else list(_TYPES)
    return {"Unit", "Install", *(k.capitalize() for k in kinds if k not in ("target", "device"))}


@file_rule(Verdict.BLOCK)
def outside_section(doc: Document, ctx: Context) -> Iterator[Found]:
    """An assignment before the first section header is passed over.

    systemd logs "Assignment outside of section. Ignoring." and goes on. The usual place is a
    drop-in that was made of one line.

    Bad:
        Environment=TIKTOKEN_RS_CACHE_DIR=/srv/tk

    Good:
        [Service]
        Environment=TIKTOKEN_RS_CACHE_DIR=/srv/tk

    Source: systemd.syntax(7) (tried: systemd 252, 257)
    """
    for directive in doc.directives if judged(doc) else ():
        if directive.section == "":
            homes = [s for s in ("Service", "Unit", "Install") if directive.key in known_keys()[s]]
            yield Found(
                directive.at, f"{directive.key}= stands outside of a section and is passed over",
                f"put [{(homes or ['Service'])[0]}] above it", sees="",
            )  # fmt: skip


@file_rule(Verdict.BLOCK)
def unknown_section(doc: Document, ctx: Context) -> Iterator[Found]:
    """A section that systemd does not know is passed over with all its lines.

    Names are case-sensitive: with `[install]` the service starts by hand and not at boot. Names
    that begin with `X-` are for other programs.

    Bad:
        [install]
        WantedBy=multi-user.target

    Good:
        [Install]
        WantedBy=multi-user.target

    Source: systemd.syntax(7); ollama/ollama#3195 (tried: systemd 252, 257)
    """
    known = _sections(doc) if judged(doc) else set()
    for at, name in doc.headers if judged(doc) else ():
        if name in known or name.startswith("X-"):
            continue
        close = {section.lower(): section for section in known}.get(name.strip().lower())
        if close is None:
            near = difflib.get_close_matches(name.capitalize(), sorted(known), n=1)
            close = near[0] if near else None
        fix = f"write [{close}]" if close else "move its lines to [Unit], [Service] or [Install]"
        yield Found(at, f"[{name}] is no section here: systemd passes over its lines", fix)


@file_rule(Verdict.BLOCK, Verdict.WARN)
def unknown_key(doc: Document, ctx: Context) -> Iterator[Found]:
    """A key that systemd does not know in its section is passed over.

    Keys are case-sensitive and belong to sections: StartLimitIntervalSec= in [Service] does
    nothing, so a service that cannot load restarts for ever. `systemd-analyze verify` prints a
    line and exits 0.

    Bad:
        [Service]
        StartLimitIntervalSec=600

    Good:
        [Unit]
        StartLimitIntervalSec=600

    Source: systemd src/core/load-fragment-gperf.gperf.in, v255 to v257; eugr/spark-vllm-docker#257
    """
    for directive in doc.directives if judged(doc) else ():
        section, key = directive.section, directive.key
        keys = known_keys().get(section)
        if keys is None or key.startswith("X-") or section not in _sections(doc):
            continue
        if key not in keys:
            yield Found(
                directive.at, f"{key}= is no key of [{section}]: systemd passes over the line",
                _key_fix(key, section, directive.value), sees="",
            )  # fmt: skip
        elif keys[key].version > 255:
            yield Found(
                directive.at, f"{key}= came with systemd {keys[key].version}; DGX OS has 255, "
                "which passes over the line", "leave it out there", verdict=Verdict.WARN,
            )  # fmt: skip


def _key_fix(key: str, section: str, value: str) -> str:
    for other in ("Unit", "Service", "Install"):
        if other != section and key in known_keys()[other]:
            return f"move {key}={value} to [{other}]"
    names = sorted(known_keys()[section])
    exact = {name.lower(): name for name in names}.get(key.lower())
    close = [exact] if exact else difflib.get_close_matches(key, names, n=1, cutoff=0.75)
    if close:
        return f"write {close[0]}="
    if re.fullmatch(r"[A-Z][A-Z0-9_]+", key):
        return f'write Environment="{key}={value}"'
    return "remove the line"
