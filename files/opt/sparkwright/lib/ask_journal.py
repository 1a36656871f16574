"""What systemd, the kernel and the service itself say of one start."""

from __future__ import annotations

import re
import subprocess
from typing import Any

# What an engine says of the kernels it chose: vLLM's wordings of 0.13 to 0.33 and of its forks,
# and llama.cpp's.
BACKENDS = re.compile(
    r"Using Marlin backend|Using '?\w+'? (?:Mxfp4|NvFp4) MoE backend"
    r"|Using (?:NvFp4LinearBackend\.\w+|\w+NvFp4\w*Kernel) for NVFP4 GEMM"
    r"|\[MXFP4\] (?:Using backend|Auto-selected): [^\n]*"
    r"|Using \w+ (?:attention )?backend\b|using device [^\n]*|ARCHS = [0-9,]+"
)
SHOWN = 6
STARTING = "7d4958e842da4a758f6c1cdc7b36dcc5"  # systemd's "Starting …", sd-messages.h
# The driver's own errors, and its "no memory" (0x51), after which GB10 wedges or resets
# (NVIDIA/dgx-spark-playbooks#97, vllm#56824).
DRIVER = re.compile(r"^.*(?:NVRM: Xid|NV_ERR_NO_MEMORY|NVRM:.*0x0*51\b).*$", re.M)


def output(argv: list[str]) -> str:
    """What a command prints; empty when it fails."""
    return subprocess.run(
        argv, capture_output=True, text=True, errors="replace", check=False
    ).stdout


def journal(spec: dict[str, Any]) -> str:
    """What the service has logged since this start."""
    since = f"_SYSTEMD_INVOCATION_ID={spec['invocation']}"
    return output(["journalctl", "--no-pager", "-o", "cat", since])


def begins(spec: dict[str, Any]) -> bool:
    """Does the journal still hold the beginning of this start? A journal is bounded."""
    words = [f"INVOCATION_ID={spec['invocation']}", f"MESSAGE_ID={STARTING}"]
    return bool(output(["journalctl", "-q", "--no-pager", "-o", "cat", "-n", "1", *words]))


def driver_errors(spec: dict[str, Any]) -> list[str]:
    """Lines of the GPU's driver in the kernel's log since this start."""
    argv = ["systemctl", "show", "--timestamp=unix", "-p", "InactiveExitTimestamp", spec["unit"]]
    since = output(argv).partition("=")[2].strip()
    if not re.fullmatch(r"@[0-9]+", since):
        return []
    log = output(["journalctl", "--no-pager", "-o", "cat", "-k", "--since", since])
    return [line.strip() for line in DRIVER.findall(log)]


def backends(log: str) -> list[str]:
    """What the engine says of its kernels, each line once."""
    return list(dict.fromkeys(hit[0] for hit in BACKENDS.finditer(log)))[:SHOWN]


def ready_s(unit: str) -> float | None:
    """Seconds from the start of the unit's activation to its readiness."""
    keys = "InactiveExitTimestampMonotonic,ActiveEnterTimestampMonotonic"
    shown = output(["systemctl", "show", "-p", keys, unit])
    times = dict(line.split("=", 1) for line in shown.splitlines() if "=" in line)
    began, ready = (int(times.get(key) or 0) for key in keys.split(","))
    return round((ready - began) / 1e6, 1) if ready > began > 0 else None
