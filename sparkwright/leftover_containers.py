"""Containers of ours that no unit of ours runs: left by a killed client, or by hand. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sparkwright.docker_run import DOCKER
from sparkwright.resources import Command, Spec, State, quote

# A line for each container of ours: its name, the digest on its label, and the digest of its
# unit's process, which is docker's client and has the unit's environment. All three go together.
_SHOWN = """'{{.Names}} {{.Label "sparkwright.digest"}} -'"""
_LIST = (
    f"{DOCKER} ps --all --filter label=sparkwright=1 --format {_SHOWN} | "
    "while read -r name label _; do "
    'pid=$(systemctl show -p MainPID --value "$name.service"); '
    'digest=$(tr "\\0" "\\n" <"/proc/$pid/environ" | sed -n "s/^SPARKWRIGHT_DIGEST=//p"); '
    'echo "$name $label ${digest:--}"; done 2>/dev/null'
)


@dataclass(frozen=True)
class LeftContainers:
    """No container of ours without the unit that started it."""

    def probes(self) -> list[Spec]:
        return [{"kind": "run", "argv": ["sh", "-c", _LIST]}]

    def drift(self, states: Sequence[State]) -> list[str]:
        return [
            f"container {name}: no unit of ours runs it"
            if process == "-"
            else f"container {name}: is of {label}, its unit runs {process}"
            for name, label, process in _left(states[0])
        ]

    def fix(self, states: Sequence[State]) -> list[Command]:
        return [Command(f"{DOCKER} rm --force {quote(row[0])}") for row in _left(states[0])]


def _left(state: State) -> list[tuple[str, str, str]]:
    rows = [line.split() for line in state.get("out", "").splitlines()]
    # Without a label's value there are two words: of ours, but not of a unit.
    found = [(row[0], row[1], row[2]) if len(row) == 3 else (row[0], "-", "-") for row in rows]
    return [row for row in found if row[1] != row[2] or row[2] == "-"]
