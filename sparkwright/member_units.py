"""What differs in the units of a model that several machines serve together; their link's unit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sparkwright.container_units import CLIENT
from sparkwright.digest import digest
from sparkwright.quoting import environment, exec_line
from sparkwright.resources import Command, File, Spec, State, quote
from sparkwright.unit_sections import HEADER

if TYPE_CHECKING:
    from sparkwright.units import Service

# RDMA needs these beside the GPU's own: the verbs of each port, and the connection manager.
DEVICES = ("char-infiniband_verbs", "/dev/infiniband/rdma_cm")
# Variable by which the parts of one model know each other: build, weights and commands.
PAIR = "SPARKWRIGHT_PAIR"
# Seconds that the head's start waits for the workers beside their own memory gate: systemd starts a
# unit in milliseconds, and a machine that boots beside the head needs its time.
WAIT_S = 120


@dataclass(frozen=True)
class MemberUnit:
    """One machine's part as its unit says it.

    + pair: digest that is the same on all members
    + link: unit that watches the others, without ".service"
    + gate: words of the command that has the workers started before the head; empty on a worker
    + requires: units that must run first, without ".service"; they share their /tmp with this one
    + part_of: unit with which this one stops and restarts, without ".service"
    + networks: of the fabric, from which alone a process that nobody asks is reached
    """

    pair: str
    link: str
    gate: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    part_of: str = ""
    networks: tuple[str, ...] = ()

    @property
    def is_worker(self) -> bool:
        """Does nobody ask this process?"""
        return not self.gate


def unit_lines(member: MemberUnit) -> list[str]:
    """For the [Unit] section."""
    lines = [f"Wants={member.link}.service"]
    lines += [f"PartOf={member.part_of}.service"] if member.part_of else []
    for name in member.requires:
        # Ray's processes meet at sockets below /tmp/ray. With a /tmp of its own vLLM ends: "Failed
        # to connect to socket at address:/tmp/ray/session_…/sockets/raylet" (Ray 2.60.0).
        ties = ("Requires", "After", "JoinsNamespaceOf")
        lines += [f"{tie}={name}.service" for tie in ties]
    return lines


def service_lines(member: MemberUnit, memory_gate: str, main: str, health: str) -> list[str]:
    """The commands of the [Service] section in their order."""
    lines = [environment(PAIR, member.pair), f"ExecStartPre={memory_gate}"]
    if member.is_worker:
        return [*lines, f"ExecStart={main}", *_closed(member)]
    gate = exec_line(member.gate, root=True)
    return [*lines, f"ExecStartPre={gate}", f"ExecStart={main}", f"ExecStartPost={health}"]


def _closed(member: MemberUnit) -> list[str]:
    """No packet but the members' own and this machine's.

    Ray listens on every address of the machine, asks for no password and runs what it is sent.
    """
    allowed = ("localhost", *member.networks)
    return ["IPAddressDeny=any", f"IPAddressAllow={' '.join(allowed)}"] if member.networks else []


def policy(service: Service, lines: Sequence[str]) -> list[str]:
    """How it starts again, and the lines that all units have.

    Only the link starts a worker again: without its head it would hold the memory for nobody. What
    is left of it when its main process has ended is killed at once: nobody asks it, and a rank of
    vLLM 0.32 whose parent is gone does not end at SIGTERM, so the pair came back 90 s later.
    """
    if not service.member or not service.member.is_worker:
        return [f"Restart={service.restart}", *lines]
    return ["Restart=no", *lines, "KillMode=mixed"]


def wait_s(service: Service) -> int:
    """Seconds more that a head's start may take: a worker frees memory first, as the head does."""
    member = service.member
    return service.memory_wait_s + WAIT_S if member and not member.is_worker else 0


_LINK = (
    (
        # Not after network-online.target: it waits for the fabric's address itself, and longer.
        # It starts again for as long as the machine runs: the model cannot come back without it.
        "StartLimitIntervalSec=0",
        "",
        "[Service]",
        "Type=exec",
    ),
    (
        "Restart=always",
        "RestartSec=5",
        # Not ReadWritePaths=: after a boot the directory is not there yet. Others use it too.
        "RuntimeDirectory=sparkwright",
        "RuntimeDirectoryPreserve=yes",
    ),
)


def link_text(unit: str, description: str, words: Sequence[str]) -> tuple[str, str]:
    """(text, digest of the running process) of the link beside a model's unit.

    + unit: of the link; words: its command
    """
    # Root, to start and stop one unit through systemctl; all else is closed. It reads another
    # account's /proc/<pid>/environ, which is CAP_SYS_PTRACE's to allow (proc(5)).
    none = "CapabilityBoundingSet="
    closed = [f"{none}CAP_SYS_PTRACE" if line == none else line for line in CLIENT]
    body = [f"Description={description}", *_LINK[0], f"ExecStart={exec_line(words)}"]
    body += [*_LINK[1], *closed]
    known = digest({"unit": unit, "lines": body})
    at = body.index("Type=exec") + 1
    mine = environment("SPARKWRIGHT_DIGEST", known)
    lines = [*body[:at], mine, *body[at:], "", "[Install]", "WantedBy=multi-user.target"]
    return "\n".join([HEADER, "", "[Unit]", *lines]) + "\n", known


@dataclass(frozen=True)
class OwnUnit:
    """A unit of ours beside a model's: its file, and for one that starts at boot the process too.

    + name: without ".service"; text: with SPARKWRIGHT_DIGEST in it
    + digest: of the process that shall run; "" for a unit that others pull in
    """

    name: str
    file: File
    digest: str

    def probes(self) -> list[Spec]:
        return [*self.file.probes(), {"kind": "unit", "name": f"{self.name}.service"}]

    def drift(self, states: Sequence[State]) -> list[str]:
        unit, name = states[1], f"{self.name}.service"
        found = self.file.drift(states[:1])
        if unit.get("NeedDaemonReload") == "yes" and not found:
            found.append(f"{name}: systemd has not read its file again")
        if not self.digest:
            return found
        boot = unit.get("UnitFileState") or "absent"
        found += [f"{name}: {boot}, not enabled"] if boot != "enabled" else []
        if unit.get("ActiveState") != "active":
            return [*found, f"{name}: {unit.get('ActiveState', 'absent')}, not active"]
        have = unit.get("digest") or "no digest"
        return found + ([f"{name}: runs {have}, not {self.digest}"] if have != self.digest else [])

    def fix(self, states: Sequence[State]) -> list[Command]:
        name = quote(f"{self.name}.service")
        commands = [
            Command("install -d -m 0755 /run/sparkwright"),
            *self.file.fix(states[:1]),
            Command("systemctl daemon-reload"),
        ]
        if self.digest:
            commands.append(Command(f"systemctl --quiet enable {name}"))
            commands.append(Command(f"systemctl restart {name}"))
        return commands
