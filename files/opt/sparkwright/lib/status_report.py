"""Collects what a bug report needs from this machine. Reads only, standard library only.

Runs as `python3 -c <this text> <spec>` over SSH.
SPEC: {"commands": {name: argv}, "files": {name: path}, "secrets": [path], "limit": bytes}.
Prints {name: text}. The content of the secret files never leaves: it is replaced here, and so are
serial numbers that the kernel tells; the laptop removes the rest.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

SERIALS = (
    "/etc/machine-id",
    "/sys/class/dmi/id/product_serial",
    "/sys/class/dmi/id/product_uuid",
    "/sys/class/dmi/id/board_serial",
    "/sys/class/dmi/id/chassis_serial",
    "/proc/device-tree/serial-number",
)
SHORTEST = 6  # shorter contents would be found in every word


def words(paths: list[str]) -> list[str]:
    """Every word of the files, the longest first; comments and names of variables are none."""
    found: set[str] = set()
    for path in paths:
        with contextlib.suppress(OSError):
            for line in Path(path).read_text(errors="replace").splitlines():
                value = line.split("=", 1)[-1].strip().strip("\0'\"")
                found |= {part for part in value.split() if len(part) >= SHORTEST}
    return sorted(found, key=len, reverse=True)


def run(argv: list[str], limit: int) -> str:
    """What a command says, its end when it is long, and why when it cannot be run."""
    env = {**os.environ, "LC_ALL": "C", "SYSTEMD_COLORS": "0", "PAGER": ""}
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, errors="replace", timeout=30, env=env,
            stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"cannot be run: {error}\n"
    text = done.stdout + (f"\n[stderr]\n{done.stderr}" if done.stderr else "")
    return f"$ {' '.join(argv)}  (exit {done.returncode})\n{text[-limit:]}"


def read(path: str, limit: int) -> str:
    """A file's text."""
    try:
        return Path(path).read_text(errors="replace")[-limit:]
    except OSError as error:
        return f"cannot be read: {error.strerror}\n"


def collect(spec: dict[str, Any]) -> dict[str, str]:
    """Everything by name, without secrets and serial numbers."""
    limit = spec["limit"]
    found = {name: run(argv, limit) for name, argv in spec["commands"].items()}
    found |= {name: read(path, limit) for name, path in spec["files"].items()}
    hidden = [(word, "<secret>") for word in words(spec["secrets"])]
    hidden += [(word, "<serial>") for word in words(list(SERIALS))]
    hidden.append((os.uname().nodename, "<host>"))
    for name, text in found.items():
        for word, instead in hidden:
            text = text.replace(word, instead)
        found[name] = text
    return found


def main(argv: list[str]) -> int:
    """Print what was collected."""
    print(json.dumps(collect(json.loads(argv[0]))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
