"""What differs in the unit of a container: docker's client is the process, docker has the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparkwright.quoting import environment, exec_line

if TYPE_CHECKING:
    from sparkwright.units import Service

# docker.service stopped or restarted does the same to the unit (systemd.unit(5), Requires=); one
# that crashes ends the client with an error, and Restart= starts it again.
UNIT = ("Requires=docker.service", "After=docker.service")
# The client may not do more than speak to the engine: the container's own limits are docker's.
CLIENT = (
    "NoNewPrivileges=yes",
    "CapabilityBoundingSet=",
    "ProtectSystem=strict",
    "ProtectHome=yes",
    "PrivateTmp=yes",
    "PrivateDevices=yes",
    "ProtectKernelTunables=yes",
    "ProtectKernelModules=yes",
    "ProtectControlGroups=yes",
    "RestrictSUIDSGID=yes",
    "LockPersonality=yes",
    "RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX",
)
# Seconds that an engine has between SIGTERM and SIGKILL, inside TimeoutStopSec=90 of all units.
STOP_S = 60
POLICY = (
    "TimeoutStopSec=90",
    # SIGTERM to the client alone, which hands it on: the container was told already.
    "KillMode=mixed",
    "LogRateLimitIntervalSec=30",
    "LogRateLimitBurst=2000",
)


def section(service: Service, memory_gate: str, health_gate: str, timeout_s: int) -> list[str]:
    """The [Service] lines.

    + memory_gate, health_gate: command lines; timeout_s: for the whole start
    """
    gate = ["/usr/bin/python3", "-I", f"{service.lib_dir}/container_gate.py"]
    name = ["--name", service.name]
    own = ["/usr/bin/install", "-d", "-o", service.user, "-g", service.user, "-m", "0750"]
    return [
        "[Service]",
        "Type=exec",
        environment("SPARKWRIGHT_DIGEST", service.digest),
        # The client needs no credentials, and would complain that it may not read root's.
        environment("DOCKER_CONFIG", "/nonexistent"),
        # A container of that name that was left, by a client that was killed, holds port and GPU.
        f"ExecStartPre={exec_line([*gate, 'clear', *name], root=True)}",
        f"ExecStartPre={exec_line([*own, *_directories(service)], root=True)}",
        f"ExecStartPre={memory_gate}",
        f"ExecStart={exec_line(_argv(service))}",
        f"ExecStartPost={health_gate}",
        f"ExecStop={exec_line([*gate, 'stop', *name, '--grace-s', str(STOP_S)])}",
        f"ExecStopPost={exec_line([*gate, 'remove', *name])}",
        f"TimeoutStartSec={timeout_s}",
        f"RestartSec={service.restart_sec}",
        f"Restart={service.restart}",
        *POLICY,
        *CLIENT,
    ]


def _argv(service: Service) -> list[str]:
    """The command with what is known last: the digest, and the file that holds the API key."""
    docker, run, *rest = service.argv
    words = [docker, run, "--label", f"sparkwright.digest={service.digest}"]
    words += ["--env-file", service.env_file] if service.env_file else []
    return [*words, *rest]


def _directories(service: Service) -> list[str]:
    """The cache directory and what lies below it for volumes: --mount makes none."""
    sources = [word.split(",") for word in service.argv if word.startswith("type=bind,source=")]
    paths = {part[1].removeprefix("source=") for part in sources if part[-1] != "readonly"}
    return sorted({service.cache_dir, *paths})
