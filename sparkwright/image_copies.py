"""Copies of images on their way between machines: where they lie, and that none stays. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sparkwright.resources import Command, Spec, State, quote

SERVER: Final = "sparkwright-spread.service"


def place(data_dir: str) -> str:
    """The directory that holds a directory for each image that is copied at the moment."""
    return f"{data_dir}/images/copies"


def dead(copies: str, then: str) -> str:
    """Shell: do something with each copy that nobody is at work on, whose lock is free."""
    each = f"find {quote(copies)} -mindepth 1 -maxdepth 1 -exec flock -n {{}} {then} ';'"
    return f"[ ! -d {quote(copies)} ] || {each}"


def at_the_end(copies: str) -> str:
    """A property of the server's unit: copies go with it, however it ends."""
    return f'ExecStopPost=+/bin/sh -c "{dead(copies, "rm -rf {}")}"'


@dataclass(frozen=True)
class NoCopies:
    """No copy of an image that nobody gives or takes: left by a power cut or a kill."""

    copies: str

    def probes(self) -> list[Spec]:
        runs = f"systemctl is-active --quiet {SERVER}"
        return [{"kind": "run", "argv": ["sh", "-c", f"{runs} || {dead(self.copies, 'echo {}')}"]}]

    def drift(self, states: Sequence[State]) -> list[str]:
        found = sorted(states[0].get("out", "").splitlines())
        return [f"{path}: left by a run that died" for path in found]

    def fix(self, states: Sequence[State]) -> list[Command]:
        return [Command(dead(self.copies, "rm -rf {}"))]
