"""The lines that every unit of a served model has, with their reasons."""

from __future__ import annotations

import re
from typing import Final

# Path lists in units follow quoting rules of their own; plain paths need none of them.
PLAIN: Final = re.compile(r"(/[A-Za-z0-9_.,:=+@-]+)+")
# ProtectHome=yes and PrivateTmp=yes hide these from the engine (ollama#2701).
HIDDEN: Final = ("/home/", "/root/", "/run/user/", "/tmp/", "/var/tmp/")  # noqa: S108
# Every unit of ours begins with it; what lacks it is not ours to touch.
MARKER = "# Managed by sparkwright"
HEADER = f"{MARKER}. A converge undoes edits: change sparks.yaml or the recipe instead."

SERVICE_POLICY: tuple[str, ...] = (
    "TimeoutStopSec=90",
    # The engine dies before sshd does.
    "OOMScoreAdjust=800",
    "OOMPolicy=kill",
    # "unlimited" is a word that systemd ignores; limits.conf does not reach services.
    "LimitMEMLOCK=infinity",
    "LogRateLimitIntervalSec=30",
    "LogRateLimitBurst=2000",
)

# What CUDA survives. Left out on purpose: MemoryDenyWriteExecute= (CUDA compiles at run time),
# PrivateDevices= (no GPU), ProcSubset=pid (ggml reads /proc/meminfo).
HARDENING: tuple[str, ...] = (
    "NoNewPrivileges=yes",
    "CapabilityBoundingSet=",
    "ProtectSystem=strict",
    "ProtectHome=yes",
    "PrivateTmp=yes",
    "ProtectKernelTunables=yes",
    "ProtectKernelModules=yes",
    "ProtectKernelLogs=yes",
    "ProtectControlGroups=yes",
    "ProtectClock=yes",
    "ProtectHostname=yes",
    "RestrictSUIDSGID=yes",
    "RestrictRealtime=yes",
    "RestrictNamespaces=yes",
    "LockPersonality=yes",
    "SystemCallArchitectures=native",
    "RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK",
)
