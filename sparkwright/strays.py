"""Files that should not be there, in a directory of ours whose every file we know."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sparkwright.resources import Command, Spec, State, quote


@dataclass(frozen=True)
class NoStrays:
    """No file beside ours: `wget` run twice leaves `o200k_base.tiktoken.1`, maybe a broken one.

    Directories are not looked at: we never remove a tree this way.

    + names: file names that belong there
    """

    path: str
    names: tuple[str, ...]

    def probes(self) -> list[Spec]:
        depth = ["-mindepth", "1", "-maxdepth", "1"]
        find = ["find", self.path, *depth, "!", "-type", "d", "-printf", "%f\\0"]
        return [{"kind": "run", "argv": find}]

    def strays(self, states: Sequence[State]) -> list[str]:
        """Names of files that are not ours, sorted."""
        found = states[0].get("out", "").split("\0")
        return sorted(name for name in found if name and name not in self.names)

    def drift(self, states: Sequence[State]) -> list[str]:
        return [f"{self.path}/{name}: is not ours" for name in self.strays(states)]

    def fix(self, states: Sequence[State]) -> list[Command]:
        paths = [f"{self.path}/{name}" for name in self.strays(states)]
        return [Command(f"rm -f -- {quote(*paths)}")]
