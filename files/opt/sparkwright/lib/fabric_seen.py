"""What this machine's network is: interfaces, ConnectX-7 halves, SSH's way in, netplan's claims.

Runs as `python3 -c <this text> <spec>`: one JSON object in, one out, so nothing need be installed.
Changes nothing. Files of netplan may hold Wi-Fi passwords: their text stays on the machine, only
the names of interfaces that they configure are told. Spec, every key optional:

    {"ours": path of our netplan file, "pings": [[own address, peer, payload bytes], ...],
     "venvs": directory with a link for each vLLM profile}
"""

from __future__ import annotations

import fnmatch
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

NETPLAN = ("run/netplan", "etc/netplan", "usr/lib/netplan", "lib/netplan")
# Distributions whose versions must agree in a group that computes together.
TOOLS = ("netplan", "ping", "ib_write_bw")
PACKAGES = ("torch", "vllm", "ray", "nvidia_nccl_cu12", "nvidia_nccl_cu13")


def text(path: Path) -> str:
    """A file of sysfs; empty when it is not there, or an interface that is down refuses."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def number(path: Path) -> int:
    """A whole number of sysfs; 0 when there is none."""
    found = text(path)
    return int(found) if found.isdigit() else 0


def devices(sysfs: Path) -> dict[str, dict[str, str]]:
    """RDMA devices by the name of their interface."""
    found = {}
    for place in sorted((sysfs / "class/infiniband").glob("*")):
        state = text(place / "ports/1/state").partition(": ")[2]
        phys = text(place / "ports/1/phys_state").partition(": ")[2]
        for net in sorted((place / "device/net").glob("*")):
            found[net.name] = {"device": place.name, "state": state, "phys": phys}
    return found


def interfaces(
    sysfs: Path, addresses: Mapping[str, list[str]], claims: Callable[[str, str], list[str]]
) -> dict[str, Any]:
    """Every interface but loopback, by name.

    + addresses: with prefix, by interface
    + claims: from name and MAC to netplan's files that configure it
    """
    rdma, found = devices(sysfs), {}
    for place in sorted((sysfs / "class/net").glob("*")):
        if place.name == "lo" or not place.is_dir():
            continue
        mac = text(place / "address")
        found[place.name] = {
            "mtu": number(place / "mtu"),
            "on": bool(int(text(place / "flags") or "0", 16) & 1),  # IFF_UP: somebody wants it up
            "up": text(place / "carrier") == "1",
            "speed": number(place / "speed"),
            "pci": (place / "device").resolve().name if (place / "device").exists() else "",
            "addresses": addresses.get(place.name, []),
            "rdma": rdma.get(place.name),
            "claimed": claims(place.name, mac),
        }
    return found


def claimed(files: Mapping[str, str], name: str, mac: str) -> list[str]:
    """Paths of the netplan files that name an interface, match it by a pattern, or by its MAC.

    No YAML reader is in the standard library, so every word counts, comments apart: rather one
    file too many than two that configure one interface.
    """
    found = []
    for path, content in files.items():
        bare = re.sub(r"(^|\s)#.*", "", content)
        words = set(re.split(r"""[\s\[\]{},"':]+""", bare))
        globs = [word for word in words if re.search(r"[*?]", word)]
        hit = name in words or any(fnmatch.fnmatchcase(name, glob) for glob in globs)
        if hit or (mac and mac.lower() in bare.lower()):
            found.append(path)
    return found


def netplan_files(root: Path, ours: str) -> dict[str, str]:
    """Texts of netplan's files, without ours; one in /run hides its namesake in /etc."""
    found: dict[str, tuple[str, str]] = {}
    for place in NETPLAN:
        for path in sorted((root / place).glob("*.yaml")):
            if path.name != Path(ours).name:
                shown = "/" + str(path.relative_to(root))
                found.setdefault(path.name, (shown, path.read_text(errors="replace")))
    return dict(found.values())


def ip(*words: str) -> Any:
    """What `ip -json` says; an empty list when it refuses."""
    done = subprocess.run(["ip", "-json", *words], capture_output=True, text=True, check=False)
    return json.loads(done.stdout or "[]") if done.returncode == 0 else []


def all_addresses() -> dict[str, list[str]]:
    """Addresses with prefix, by interface."""
    return {
        link["ifname"]: [f"{a['local']}/{a['prefixlen']}" for a in link.get("addr_info", [])]
        for link in ip("address")
    }


def ssh_connection(pid: int, proc: Path = Path("/proc")) -> str:
    """SSH_CONNECTION of the nearest ancestor that has it: sudo takes it away from its child."""
    while pid > 1:
        try:
            environ = (proc / str(pid) / "environ").read_bytes()
            stat = (proc / str(pid) / "stat").read_text()
        except OSError:
            return ""
        for entry in environ.split(b"\0"):
            if entry.startswith(b"SSH_CONNECTION="):
                return entry.partition(b"=")[2].decode(errors="replace")
        pid = int(stat.rsplit(")", 1)[1].split()[1])
    return ""


def way_in(connection: str, addresses: Mapping[str, Iterable[str]]) -> list[str]:
    """Interfaces that SSH needs: with the address that was called, and towards the caller.

    Without a connection of SSH: those with a default route.
    """
    words = connection.split()
    if len(words) != 4:
        return sorted({route["dev"] for route in ip("route", "show", "default")})
    client, server = (word.partition("%")[0] for word in (words[0], words[2]))
    found = {n for n, own in addresses.items() if server in {a.partition("/")[0] for a in own}}
    found |= {route["dev"] for route in ip("route", "get", client) if "dev" in route}
    return sorted(found)


def versions(venvs: Path | None) -> dict[str, str]:
    """Versions that must agree in a group: kernel, driver, and what lies in each vLLM venv."""
    found = {"kernel": os.uname().release}
    if driver := text(Path("/sys/module/nvidia/version")):
        found["driver"] = driver
    for link in sorted(venvs.glob("*")) if venvs else ():
        if not link.is_symlink():
            continue
        python = re.search(r"^version(?:_info)? *= *(\S+)", text(link / "pyvenv.cfg"), re.M)
        found[f"{link.name} python"] = python[1] if python else "?"
        for package in PACKAGES:
            for info in link.glob(f"lib/python3*/site-packages/{package}-*.dist-info"):
                found[f"{link.name} {package}"] = info.stem.split("-")[1]
    return found


def ping(own: str, peer: str, size: int) -> str:
    """How whole packets of a size get through: ok, small (only small ones), or none."""
    for word, payload in (("ok", size), ("small", 56)):
        argv = ["ping", "-n", "-q", "-M", "do", "-s", str(payload), "-c", "3", "-i", "0.2"]
        argv += ["-W", "1", "-I", own, peer]
        if subprocess.run(argv, capture_output=True, check=False).returncode == 0:
            return word
    return "none"


def seen(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The whole answer."""
    root, addresses = Path("/"), all_addresses()
    files = netplan_files(root, spec.get("ours", ""))
    pings = spec.get("pings", [])
    with ThreadPoolExecutor(max(1, len(pings))) as pool:
        answers = list(pool.map(lambda words: ping(*words), pings))
    return {
        "interfaces": interfaces(root / "sys", addresses, lambda n, m: claimed(files, n, m)),
        "ssh": way_in(ssh_connection(os.getpid()), addresses),
        "tools": {tool: shutil.which(tool) or "" for tool in TOOLS},
        "trial": [str(p) for p in Path("/run/netplan").glob(Path(spec.get("ours", "-")).name)],
        "versions": versions(Path(spec["venvs"]) if spec.get("venvs") else None),
        "pings": [[*words, answer] for words, answer in zip(pings, answers, strict=True)],
    }


if __name__ == "__main__":
    print(json.dumps(seen(json.loads(sys.argv[1]))))
