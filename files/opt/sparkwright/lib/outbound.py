"""Lists sockets that a service opened to other machines: proof of silence.

    outbound.py UNIT...     exit 0 when there is none, 1 with a line for each, 2 when it cannot look

Connections that others opened to one of the service's own ports are answers and do not count.
"""

from __future__ import annotations

import ipaddress
import subprocess
import sys
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")


def run(*argv: str) -> str:
    """Output of a command. Raises OSError or CalledProcessError."""
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def pids(unit: str) -> set[int]:
    """Every process of a unit."""
    group = run("systemctl", "show", "-p", "ControlGroup", "--value", unit).strip()
    if not group:
        return set()
    files = (CGROUPS / group.lstrip("/")).rglob("cgroup.procs")
    return {int(line) for file in files for line in file.read_text().split()}


def split(text: str) -> tuple[str, str]:
    """Address and port of ss(8)'s words, without brackets and interface."""
    host, _, port = text.rpartition(":")
    return host.strip("[]").partition("%")[0], port


def local(host: str) -> bool:
    """Whether an address is this machine's own; `*` and nobody's address count as own."""
    if host in ("*", "0.0.0.0", "::"):  # noqa: S104 - compared, never bound
        return True
    address = ipaddress.ip_address(host)
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)


def outbound(text: str, own: set[int]) -> list[str]:
    """
    Sockets to others that these processes opened, a phrase each.

    + text: of `ss -Hanptu`
    """
    rows = [line.split(None, 6) for line in text.splitlines() if line.strip()]
    listening = {split(row[4])[1] for row in rows if row[1] == "LISTEN"}
    found = []
    for row in rows:
        users = row[6] if len(row) > 6 else ""
        mine = any(f"pid={pid}," in users for pid in own)
        here, there = split(row[4]), split(row[5])
        if mine and not local(there[0]) and here[1] not in listening:
            found.append(f"{row[0]} {row[1]} to {there[0]} port {there[1]} {users}")
    return found


def main(argv: list[str]) -> int:
    """Look at each unit."""
    status = 0
    for unit in argv:
        try:
            own = pids(unit)
            lines = outbound(run("ss", "-Hanptu"), own) if own else []
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"{unit}: cannot be looked at: {error}", file=sys.stderr)
            return 2
        state = f"{len(lines)} sockets to others" if own else "does not run"
        print("\n".join([f"{unit}: {state}", *(f"  {line}" for line in lines)]))
        status = 1 if lines else status
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
