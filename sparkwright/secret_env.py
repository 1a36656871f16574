"""A secret as an environment file, for programs that read it from a variable only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from sparkwright.resources import TEMPORARY, Command, Spec, State, attributes, quote

_OWN = {"owner": "root", "group": "root", "mode": "0600"}


@dataclass(frozen=True)
class SecretEnv:
    """One line `variable=secret` in a file that systemd reads as root (EnvironmentFile=).

    The secret itself is never on a command line: the machine copies it from one file to the other.
    An empty or missing secret makes no file, since an empty variable would mean "no key wanted".

    + variable: name of the variable
    + secret: file that holds the secret and nothing else
    """

    path: str
    variable: str
    secret: str

    def probes(self) -> list[Spec]:
        compare = f"{{ {self._line()}; }} | cmp -s - {quote(self.path)}"
        return [
            {"kind": "path", "path": self.path},
            {"kind": "run", "argv": ["sh", "-c", compare]},
        ]

    def _line(self) -> str:
        found = f's=$(cat {quote(self.secret)}) && [ -n "$s" ]'
        return f'{found} && printf "%s=%s\\n" {self.variable} "$s"'

    def drift(self, states: Sequence[State]) -> list[str]:
        state = states[0]
        if state.get("type") != "file":
            return [f"{self.path}: {state.get('type', 'unreadable')}, not a file"]
        found = attributes(state, _OWN)
        if states[1].get("rc") != 0:
            found.insert(0, f"does not hold the key of {self.secret}")
        return [f"{self.path}: {', '.join(found)}"] if found else []

    def fix(self, states: Sequence[State]) -> list[Command]:
        temporary = quote(str(PurePosixPath(self.path).parent / f"{TEMPORARY}XXXXXXXX"))
        # mktemp makes it 0600 and root's; printf is the shell's own, so no process list has it.
        return [
            Command(
                f't=$(mktemp {temporary}) && {{ {self._line()}; }} >"$t" && '
                f'chown root:root "$t" && sync "$t" && mv -fT "$t" {quote(self.path)}'
            )
        ]
