"""What preflight asks a machine, in one round trip. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sparkwright.resources import Spec, State, quote
from sparkwright.site import UNIT_DIR, Planned
from sparkwright.units import MARKER

TOOLS = ["sudo", "systemctl", "systemd-run", "systemd-analyze", "journalctl", "ss", "apt-get"]
# Unit files of ours, those of retired recipes too; links in *.wants are not followed.
OURS = ["grep", "-l", f"^{MARKER}", "-s", "-r", "--include=llm-*.service", UNIT_DIR]
TMP = "/tmp"  # noqa: S108 - looked at, never written


@dataclass(frozen=True)
class Seen:
    """What a machine answered.

    + offset_s: the machine's clock less the laptop's, seconds
    """

    host: State
    disks: Mapping[str, State]
    ports: State
    gpu: State
    units: State
    held: State
    ours: State
    offset_s: float


def probes(data: Mapping[str, Any], items: Sequence[Planned]) -> list[Spec]:
    """Questions; `seen` takes the answers in the same order."""
    query = "--query-gpu=name,compute_cap,driver_version"
    names = [f"{UNIT_DIR}/{item.unit}.service" for item in items]
    dirs = sorted({item.weights.directory for item in items})
    marker = f"for f in {quote(*names)}; do " if names else "for f in; do "
    return [
        {"kind": "host", "tools": TOOLS},
        {"kind": "disk", "path": data["data_dir"]},
        {"kind": "disk", "path": data["prefix"]},
        {"kind": "disk", "path": TMP},
        {"kind": "ports"},
        {"kind": "run", "argv": ["nvidia-smi", query, "--format=csv,noheader"]},
        {
            "kind": "run",
            "argv": [
                "sh",
                "-c",
                (
                    f'{marker} [ ! -f "$f" ] || grep -q {quote("^" + MARKER)} "$f" '
                    '|| echo "$f"; done'
                ),
            ],
        },
        {
            "kind": "run",
            "argv": ["find", *(dirs or ["/nonexistent"]), "-type", "f", "-printf", "%p\\t%s\\n"],
        },
        {"kind": "run", "argv": OURS},
    ]


def seen(states: Sequence[State], laptop_clock: float) -> Seen:
    """
    Answers by name.

    + laptop_clock: the laptop's time at the middle of the round trip, seconds
    """
    host, data, prefix, tmp, ports, gpu, units, held, ours = states
    disks = {"data_dir": data, "prefix": prefix, TMP: tmp}
    return Seen(host, disks, ports, gpu, units, held, ours, float(host["clock"]) - laptop_clock)
