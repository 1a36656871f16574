"""Files that a run was writing when it died: found by name, and told from living ones by a lock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sparkwright.resources import TEMPORARY, Command, Spec, State, quote


@dataclass(frozen=True)
class NoLeftovers:
    """No half-written file of `resources.write_file`, whose writer holds its lock until the end.

    + places: directories that we write to, and their directories; absent ones do not matter
    """

    places: tuple[str, ...]

    def probes(self) -> list[Spec]:
        find = (
            f"find {quote(*self.places)} -maxdepth 2 -type f -name {quote(TEMPORARY + '*')} "
            "-exec flock -n {} true ';' -print 2>/dev/null"
        )
        return [{"kind": "run", "argv": ["sh", "-c", find]}]

    def found(self, states: Sequence[State]) -> list[str]:
        """Paths of dead files, sorted."""
        return sorted(states[0].get("out", "").splitlines())

    def drift(self, states: Sequence[State]) -> list[str]:
        return [f"{path}: left by a run that died" for path in self.found(states)]

    def fix(self, states: Sequence[State]) -> list[Command]:
        return [Command(f"rm -f -- {quote(*self.found(states))}")]
