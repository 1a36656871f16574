"""Wanted state of the system around our files: packages, accounts, kernel settings, services."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sparkwright.paths import LIB
from sparkwright.resources import Command, File, Spec, State, attributes, quote


@dataclass(frozen=True)
class Packages:
    """Debian packages.

    + names: package -> version, or None for whichever the machine's own sources have
    + only: a sources file that is used instead of the machine's own
    """

    names: Mapping[str, str | None]
    only: str | None = None

    def probes(self) -> list[Spec]:
        return [{"kind": "packages", "names": sorted(self.names)}]

    def wrong(self, states: Sequence[State]) -> dict[str, str | None]:
        """The packages that are absent or of another version, with the wanted version."""
        have = states[0].get("versions", {})
        return {
            name: version
            for name, version in sorted(self.names.items())
            if name not in have or (version is not None and have[name] != version)
        }

    def drift(self, states: Sequence[State]) -> list[str]:
        have = states[0].get("versions", {})
        return [
            f"package {name}: is {have[name]}, not {version}"
            if name in have
            else f"package {name}: not installed"
            for name, version in self.wrong(states).items()
        ]

    def fix(self, states: Sequence[State]) -> list[Command]:
        words = [n if v is None else f"{n}={v}" for n, v in self.wrong(states).items()]
        only = f"--only {quote(self.only)} " if self.only else ""
        return [Command(f"python3 {LIB}/apt_install.py {only}{quote(*words)}")]


@dataclass(frozen=True)
class User:
    """A system account without a login shell.

    + groups: further groups; those that the machine does not know are left out (no `render`
      group exists where no GPU driver is installed)
    """

    name: str
    home: str
    groups: tuple[str, ...] = ()

    def probes(self) -> list[Spec]:
        return [{"kind": "user", "name": self.name}]

    def drift(self, states: Sequence[State]) -> list[str]:
        state = states[0]
        if not state.get("exists"):
            return [f"user {self.name}: does not exist"]
        missing = [g for g in self.groups if g in state["known"] and g not in state["groups"]]
        # useradd writes the account before its group: a power cut between leaves half of it.
        found = [] if self.name in state["known"] else [f"group {self.name} does not exist"]
        found += [f"not in group {group}" for group in missing]
        if state["home"] != self.home:
            found.append(f"home is {state['home']}, not {self.home}")
        return [f"user {self.name}: {', '.join(found)}"] if found else []

    def fix(self, states: Sequence[State]) -> list[Command]:
        make = (
            f"getent passwd {self.name} >/dev/null || useradd --system --user-group "
            f"--no-create-home --home-dir {quote(self.home)} --shell /usr/sbin/nologin "
            f"{self.name}"
        )
        group = (
            f"getent group {self.name} >/dev/null || "
            f'groupadd --system --gid "$(id -g {self.name})" {self.name}'
        )
        join = [
            f"if getent group {g} >/dev/null; then usermod -aG {g} {self.name}; fi"
            for g in self.groups
        ]
        moved = states[0].get("exists") and states[0].get("home") != self.home
        return [Command(text) for text in [make, group, *([self._move()] if moved else []), *join]]

    def _move(self) -> str:
        """Shell that changes the home alone; usermod refuses while a server of ours runs."""
        home = re.sub(r"([\\&,])", r"\\\1", self.home)
        edit = f"s,^\\({self.name}:[^:]*:[^:]*:[^:]*:[^:]*:\\)[^:]*,\\1{home},"
        return f"EDITOR={quote('sed -i ' + quote(edit))} vipw -q"


@dataclass(frozen=True)
class Sysctl:
    """Kernel settings as they are in force now; a file in /etc/sysctl.d keeps them at boot."""

    values: Mapping[str, str]

    def probes(self) -> list[Spec]:
        return [{"kind": "sysctl", "keys": sorted(self.values)}]

    def drift(self, states: Sequence[State]) -> list[str]:
        have = states[0].get("values", {})
        return [
            f"sysctl {key}: {have.get(key)}, not {value}"
            for key, value in sorted(self.values.items())
            if have.get(key) != value
        ]

    def fix(self, states: Sequence[State]) -> list[Command]:
        return [
            Command(f"sysctl -q -w {quote(f'{key}={value}')}")
            for key, value in sorted(self.values.items())
            if states[0].get("values", {}).get(key) != value
        ]


@dataclass(frozen=True)
class Restarted:
    """A service that was started after its configuration file was written.

    Compared by time and not by "did the file change in this run": a run that dies between the
    two would otherwise never restart it (pyinfra facts, "lost restart"). A file that is about to
    be written counts as well: its old time says nothing.
    """

    unit: str
    file: File

    def probes(self) -> list[Spec]:
        show = ["systemctl", "show", "--timestamp=unix", "-p", "ActiveEnterTimestamp", "--value"]
        return [
            {"kind": "run", "argv": [*show, self.unit]},
            {"kind": "run", "argv": ["stat", "-c", "%Y", self.file.path]},
            *self.file.probes(),
        ]

    def drift(self, states: Sequence[State]) -> list[str]:
        started = states[0].get("out", "").strip().lstrip("@")
        written = states[1].get("out", "").strip()
        after = started.isdigit() and written.isdigit() and int(written) <= int(started)
        if after and not self.file.drift(states[2:]):
            return []
        return [f"{self.unit}: started before {self.file.path} was written"]

    def fix(self, states: Sequence[State]) -> list[Command]:
        return [Command(f"systemctl restart {quote(self.unit)}")]


@dataclass(frozen=True)
class Secret:
    """A random key, made on the machine once and never read back.

    32 bytes from the kernel, 43 characters of base64 text without padding.
    """

    path: str
    owner: str
    group: str
    mode: str

    def probes(self) -> list[Spec]:
        return [{"kind": "path", "path": self.path}]

    def drift(self, states: Sequence[State]) -> list[str]:
        state = states[0]
        wanted = {"owner": self.owner, "group": self.group, "mode": self.mode}
        if state.get("type") != "file" or not state.get("size"):
            return [f"{self.path}: no key"]
        found = attributes(state, wanted)
        return [f"{self.path}: {', '.join(found)}"] if found else []

    def fix(self, states: Sequence[State]) -> list[Command]:
        place, beside = quote(self.path), quote(self.path + ".new")
        make = (
            f"umask 077; head -c 32 /dev/urandom | base64 -w0 | tr -d '=\\n' >{beside} "
            f"&& mv -fT {beside} {place}"
        )
        own = f"chown {quote(f'{self.owner}:{self.group}')} {place} && chmod {self.mode} {place}"
        there = states[0].get("type") == "file" and states[0].get("size")
        return [Command(own)] if there else [Command(make), Command(own)]
