"""What preflight asks a machine, in one round trip. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sparkwright import container_ports, library
from sparkwright.resources import Spec, State, quote
from sparkwright.serving import ACCEPTED
from sparkwright.site import UNIT_DIR, Planned, Weights
from sparkwright.sources import source_of, weights_of
from sparkwright.unit_sections import MARKER

TOOLS = ["sudo", "systemctl", "systemd-run", "systemd-analyze", "journalctl", "ss", "apt-get"]
# Unit files of ours, those of retired recipes too; links in *.wants are not followed.
OURS = ["grep", "-l", f"^{MARKER}", "-s", "-r", "--include=llm-*.service", UNIT_DIR]


@dataclass(frozen=True)
class Seen:
    """What a machine answered.

    + offset_s: the machine's clock less the laptop's, seconds
    + venvs: finished vLLM environments, by directory name
    + library: whether the library can be opened
    """

    host: State
    disks: Mapping[str, State]
    ports: State
    gpu: State
    units: State
    held: State
    ours: State
    offset_s: float
    venvs: frozenset[str] = frozenset()
    library: State = field(default_factory=dict)


def probes(data: Mapping[str, Any], items: Sequence[Planned]) -> list[Spec]:
    """Questions; `seen` takes the answers in the same order."""
    query = "--query-gpu=name,compute_cap,driver_version"
    names = [f"{UNIT_DIR}/{item.unit}.service" for item in items]
    dirs = sorted({at for i in items if i.weights for at in places(data, i.weights)})
    return [
        {"kind": "host", "tools": TOOLS},
        {"kind": "disk", "path": data["data_dir"]},
        {"kind": "disk", "path": data["prefix"]},
        {"kind": "ports"},
        {"kind": "run", "argv": ["nvidia-smi", query, "--format=csv,noheader"]},
        {"kind": "run", "argv": ["sh", "-c", foreign(names)]},
        {
            "kind": "run",
            "argv": [
                "timeout",
                "120",
                "find",
                *(dirs or ["/nonexistent"]),
                "-type",
                "f",
                "-printf",
                "%p\\t%s\\n",
            ],
        },
        {"kind": "run", "argv": OURS},
        container_ports.probe(),
        {"kind": "listing", "pattern": f"{data['prefix']}/vllm/*/.stamp"},
        library.probe(data),
    ]


def places(data: Mapping[str, Any], weights: Weights) -> list[str]:
    """Directories that may hold a snapshot's files: its own, a bundle's that was pushed, and a
    library's that are used where they lie."""
    snapshot = weights.snapshot
    pushed = weights_of(source_of(data), snapshot.repo, str(snapshot.commit))
    shelves = weights.library if library.in_place(data) else ()
    return [weights.directory, *([pushed] if pushed else []), *shelves]


def foreign(paths: Sequence[str]) -> str:
    """Shell text that lists the unit files that are there and not ours, for nobody may lose his.

    A link to /dev/null is a mask. On a machine that never served this recipe it is somebody's
    decision; where the unit has answered its question it is drift.
    """
    accepted = f'{quote(ACCEPTED)}/"$n".json'
    masked = f'[ "$(readlink "$f")" = /dev/null ] && [ -e {accepted} ]'
    return (
        f"for f in {quote(*paths)}; do n=${{f##*/}}; n=${{n%.service}}; "
        '{ [ ! -e "$f" ] && [ ! -L "$f" ]; } || '
        f'grep -qs {quote("^" + MARKER)} "$f" || {{ {masked}; }} || echo "$f"; done'
    )


def seen(states: Sequence[State], laptop_clock: float) -> Seen:
    """
    Answers by name.

    + laptop_clock: the laptop's time at the middle of the round trip, seconds
    """
    host, data, prefix, ports, gpu, units, held, ours, containers, stamps, there = states
    disks = {"data_dir": data, "prefix": prefix}
    ports = container_ports.owned(ports, containers)
    venvs = frozenset(path.rsplit("/", 2)[1] for path in stamps.get("paths", []))
    offset_s = float(host["clock"]) - laptop_clock
    return Seen(host, disks, ports, gpu, units, held, ours, offset_s, venvs, there)
