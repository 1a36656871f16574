"""Things a machine should have: each knows what to ask, what differs, and how to mend it.

A resource is wanted state as data. `drift` compares it with the answers of the machine's probe,
`fix` gives the commands for what differs. Both are pure; operations.py does the talking.
"""

from __future__ import annotations

import base64
import hashlib
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Protocol

from sparkwright.paths import LIB

TEMPORARY = ".sparkwright."  # begins the name of a file while it is written beside its place
WRITE_S = 120  # for a file to come from the laptop; the largest has 20 kB (our choice)

Spec = dict[str, Any]
State = dict[str, Any]


@dataclass(frozen=True)
class Command:
    """One shell command on a machine.

    + shell: POSIX sh text, run as root
    + stdin: text for standard input; secrets travel here and never in `shell`
    """

    shell: str
    stdin: str | None = None


class Resource(Protocol):
    """Wanted state of one thing."""

    def probes(self) -> list[Spec]:
        """Questions for the machine's probe."""
        ...

    def drift(self, states: Sequence[State]) -> list[str]:
        """What differs, a phrase each; empty when the thing is as wanted."""
        ...

    def fix(self, states: Sequence[State]) -> list[Command]:
        """Commands that make it so; only asked for when there is drift."""
        ...


def quote(*words: str) -> str:
    """Words as one safe piece of shell."""
    return " ".join(shlex.quote(word) for word in words)


def write_file(path: str, content: bytes, owner: str, group: str, mode: str) -> Command:
    """Write a file whole: 0600 from the first byte, beside its place, synced, then renamed.

    The content goes through standard input as base64, so nothing shows in a process list and
    nothing is left in /tmp (pyinfra#1085: uploads lie there world-readable). A laptop that dies
    meanwhile ends the input early, or never: the bytes are counted and waited for only so long.
    The lock says that the writer lives (leftovers.py).
    """
    place, text = PurePosixPath(path), base64.encodebytes(content).decode() or "\n"
    temporary = quote(str(place.parent / f"{TEMPORARY}XXXXXXXX"))
    failed = quote(f"{path}: not written; the line above says why")
    return Command(
        f"umask 077; t=$(mktemp {temporary}) || exit 1; "
        "trap 'rm -f \"$t\"' EXIT; trap 'exit 1' HUP INT TERM; exec 3>\"$t\"; flock 3; "
        f"timeout --foreground {WRITE_S} head -c {len(text)} | base64 -d >&3 && "
        f'[ "$(stat -c %s "$t")" = {len(content)} ] && '
        f'chown {quote(f"{owner}:{group}")} "$t" && chmod {mode} "$t" '
        f'&& sync "$t" && mv -fT "$t" {quote(path)} || {{ echo {failed} >&2; exit 1; }}',
        stdin=text,
    )


def attributes(state: State, wanted: Mapping[str, str]) -> list[str]:
    """Phrases for owner, group and mode that differ."""
    return [
        f"{key} is {state.get(key)}, not {value}"
        for key, value in wanted.items()
        if state.get(key) != value
    ]


@dataclass(frozen=True)
class File:
    """A file with this content, owner and mode (four octal digits)."""

    path: str
    content: str = field(repr=False)
    owner: str = "root"
    group: str = "root"
    mode: str = "0644"

    def probes(self) -> list[Spec]:
        return [{"kind": "path", "path": self.path}]

    def drift(self, states: Sequence[State]) -> list[str]:
        state = states[0]
        if state.get("type") != "file":
            return [f"{self.path}: {state.get('type', 'unreadable')}, not a file"]
        found = ["content differs"] if self.edited(state) else []
        found += attributes(state, {"owner": self.owner, "group": self.group, "mode": self.mode})
        return [f"{self.path}: {', '.join(found)}"] if found else []

    def edited(self, state: State) -> bool:
        """Is there another content?"""
        have = hashlib.sha256(self.content.encode()).hexdigest()
        return state.get("type") == "file" and state.get("sha256") != have

    def fix(self, states: Sequence[State]) -> list[Command]:
        return [write_file(self.path, self.content.encode(), self.owner, self.group, self.mode)]


@dataclass(frozen=True)
class Directory:
    """A directory with this owner and mode; its content is not looked at."""

    path: str
    owner: str = "root"
    group: str = "root"
    mode: str = "0755"

    def probes(self) -> list[Spec]:
        return [{"kind": "path", "path": self.path}]

    def drift(self, states: Sequence[State]) -> list[str]:
        state = states[0]
        if state.get("type") != "dir":
            return [f"{self.path}: {state.get('type', 'unreadable')}, not a directory"]
        wanted = {"owner": self.owner, "group": self.group, "mode": self.mode}
        found = attributes(state, wanted)
        return [f"{self.path}: {', '.join(found)}"] if found else []

    def fix(self, states: Sequence[State]) -> list[Command]:
        place = quote(self.path)
        return [
            Command(f"mkdir -p {place}"),
            Command(f"chown {quote(f'{self.owner}:{self.group}')} {place}"),
            # Five digits: with four, chmod leaves setuid and setgid bits of a directory alone.
            Command(f"chmod 0{self.mode} {place}"),
        ]


@dataclass(frozen=True)
class Absent:
    """Nothing at this path. Only for files and links: we never remove a tree this way."""

    path: str

    def probes(self) -> list[Spec]:
        return [{"kind": "path", "path": self.path}]

    def drift(self, states: Sequence[State]) -> list[str]:
        return [] if states[0].get("type") == "missing" else [f"{self.path}: is still there"]

    def fix(self, states: Sequence[State]) -> list[Command]:
        return [Command(f"rm -f {quote(self.path)}")]


@dataclass(frozen=True)
class Fetched:
    """A file from outside, known by its hash.

    + url: where the machine gets it
    + size: bytes, or None when the lock does not say
    """

    path: str
    url: str
    sha256: str
    size: int | None = None

    def probes(self) -> list[Spec]:
        return [{"kind": "path", "path": self.path}]

    def drift(self, states: Sequence[State]) -> list[str]:
        state = states[0]
        if state.get("type") != "file":
            return [f"{self.path}: {state.get('type', 'unreadable')}, not a file"]
        found = attributes(state, {"owner": "root", "group": "root", "mode": "0644"})
        if state.get("sha256") != self.sha256:
            found.insert(0, f"sha256 is {state.get('sha256')}, not {self.sha256}")
        return [f"{self.path}: {', '.join(found)}"] if found else []

    def fix(self, states: Sequence[State]) -> list[Command]:
        size = f" --size {self.size}" if self.size is not None else ""
        link = f"rm -f {quote(self.path)} && " if states[0].get("type") == "link" else ""
        fetch = (
            f"{link}python3 {LIB}/fetch.py {quote(self.url, self.path)} --sha256 {self.sha256}"
            f"{size} --mode 0644"
        )
        right = states[0].get("sha256") == self.sha256
        own = f"chown root:root {quote(self.path)} && chmod 0644 {quote(self.path)}"
        return [Command(own)] if right else [Command(fetch), Command(own)]
