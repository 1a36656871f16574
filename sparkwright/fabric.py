"""Which halves of which cable a machine of a cluster uses, and what they should be. Pure.

Names of interfaces and RDMA devices differ from box to box and with the cage that the cable is in,
so each machine says its own (files/opt/sparkwright/lib/fabric_seen.py) and nothing is shared.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sparkwright.errors import Problems, SparkwrightError
from sparkwright.paths import script
from sparkwright.resources import Spec, State

FILE: Final = "/etc/netplan/40-sparkwright-fabric.yaml"
WHERE: Final = "fabric"
Seen = Mapping[str, Any]


@dataclass(frozen=True)
class Half:
    """Half of a cable on one machine.

    + address: IPv4 with prefix; device: its RDMA device, empty when there is none
    """

    interface: str
    address: str
    device: str


def probe(data: Mapping[str, Any], pings: Sequence[tuple[str, str, int]] = ()) -> Spec:
    """
    The question to a machine; `read` takes the answer.

    + pings: (own address, peer, payload bytes)
    """
    spec = {"ours": FILE, "pings": pings, "venvs": f"{data['prefix']}/vllm"}
    argv = ["python3", "-c", script("fabric_seen.py"), json.dumps(spec)]
    return {"kind": "run", "argv": argv}


def read(state: State) -> Seen:
    """What a machine said. Raises SparkwrightError when it did not."""
    try:
        found: Seen = json.loads(state.get("out", ""))
    except ValueError:
        why = (state.get("err") or state.get("error") or "no answer").strip().splitlines()
        raise SparkwrightError(f"{WHERE}: cannot be looked at: {why[-1]}") from None
    return found


def halves(
    cluster: Mapping[str, Any], rank: int, seen: Seen, problems: Problems
) -> tuple[Half, ...]:
    """
    The halves that carry the fabric, one a network, in the order of the networks.

    + cluster: a machine's data `cluster`; empty result when a problem was found
    """
    names = cluster["interfaces"]
    names = _up(cluster, seen, problems) if names == "auto" else _named(cluster, seen, problems)
    own = cluster["members"][rank]["fabric"]
    made = []
    for name, address, network in zip(names, own, cluster["networks"], strict=bool(names)):
        device = (seen["interfaces"][name]["rdma"] or {}).get("device", "")
        made.append(Half(name, f"{address}/{network.rpartition('/')[2]}", device))
    return tuple(made)


def _named(cluster: Mapping[str, Any], seen: Seen, problems: Problems) -> list[str]:
    place, have = f"clusters/{cluster['name']}/fabric/interfaces", seen["interfaces"]
    lacking = [name for name in cluster["interfaces"] if name not in have]
    for name in lacking:
        problems.add(WHERE, f"no interface {name}; it has {', '.join(have)}", f"correct {place}")
    for name in cluster["interfaces"]:
        # One that nobody switched on says nothing of its cable: netplan will switch it on.
        if name in have and have[name]["on"] and not have[name]["up"]:
            problems.add(WHERE, f"{name} has no carrier", "plug its cable in, at both ends")
    return [] if lacking else list(cluster["interfaces"])


def _up(cluster: Mapping[str, Any], seen: Seen, problems: Problems) -> list[str]:
    """Interfaces of the cages whose cable is up; both halves of a cage, or it is a problem."""
    cages, have = _cages(seen), seen["interfaces"]
    wanted = len(cluster["networks"])
    place = f"clusters/{cluster['name']}/fabric"
    if not cages:
        what = "no ConnectX-7 port is here: no RDMA device with an interface"
        problems.add(WHERE, what, f"load its driver, or name the interfaces: {place}/interfaces")
        return []
    found: list[list[str]] = []
    for cage in cages:
        up = [name for name in cage if have[name]["up"]]
        if up and len(up) < len(cage):
            (down, *_) = [name for name in cage if name not in up]
            what = f"{up[0]} is up, and the other half of its cable, {down}, is not"
            problems.add(WHERE, what, f"sudo ip link set {down} up; else plug the cable in again")
        elif up:
            found.append(up)
    chosen = [name for cage in found for name in cage]
    if len(chosen) == wanted:
        return chosen
    names = ", ".join(name for cage in cages for name in cage)
    if not found:
        if not len(problems):
            hint = "plug it in, or wake a port: sudo ip link set NAME up"
            problems.add(WHERE, f"no cable is up at {names}", hint)
        return []
    cables = " and ".join("+".join(cage) for cage in found)
    hint = f"write {len(chosen)} networks under {place}, or name the interfaces"
    what = f"{len(chosen)} halves are up ({cables}) for {wanted} networks"
    problems.add(WHERE, what, hint)
    return []


def _cages(seen: Seen) -> list[list[str]]:
    """Interfaces with an RDMA device by cage, the first PCI domain first.

    The halves of a cage are one port of two PCI functions that differ in their domain alone:
    0000:01:00.0 and 0002:01:00.0 (NVIDIA's names enp1s0f0np0 and enP2p1s0f0np0).
    """
    cages: dict[str, list[tuple[str, str]]] = {}
    for name, found in seen["interfaces"].items():
        pci = re.fullmatch(r"([0-9a-f]{4,}):([0-9a-f:.]+)", found["pci"])
        if found["rdma"] and pci:
            cages.setdefault(pci[2], []).append((pci[1], name))
    return [[name for _, name in sorted(cages[key])] for key in sorted(cages)]


def refused(chosen: Sequence[Half], seen: Seen, speed_mbps: int, problems: Problems) -> None:
    """
    Add why these interfaces cannot be configured.

    + speed_mbps: what the link must run at; 0 is not checked
    """
    if not seen["tools"]["netplan"]:
        problems.add(WHERE, "netplan is not installed", "sudo apt-get install netplan.io")
    if not seen["tools"]["ping"]:
        problems.add(WHERE, "ping is not installed", "sudo apt-get install iputils-ping")
    for name in seen["ssh"]:
        for half in chosen:
            if half.address in seen["interfaces"].get(name, {}).get("addresses", ()):
                what = f"{name} carries this SSH connection and has the fabric's {half.address}"
                problems.add(WHERE, what, "give the fabric other networks in sparks.yaml")
    for half in chosen:
        name, found = half.interface, seen["interfaces"][half.interface]
        if name in seen["ssh"]:
            what = f"{name} carries this SSH connection, which is never touched"
            problems.add(WHERE, what, "the fabric needs an interface of its own")
        for path in found["claimed"]:
            what = f"{name} is configured by {path} already"
            problems.add(WHERE, what, "take it out there: sparkwright writes a file of its own")
        if speed_mbps and found["up"] and found["speed"] != speed_mbps:
            what = f"{name} runs at {found['speed']} Mb/s, not {speed_mbps}"
            hint = "set the switch's port, or its cable; fabric_speed_mbps if this is meant"
            problems.add(WHERE, what, hint)


def netplan_text(cluster: Mapping[str, Any], chosen: Sequence[Half]) -> str:
    """The netplan file. The form is sparkrun's; `optional` so that no boot waits for a cable."""
    lines = ["# Managed by sparkwright", "network:", "  version: 2", "  ethernets:"]
    for half in chosen:
        lines += [
            f"    {half.interface}:",
            f"      addresses: [{half.address}]",
            "      dhcp4: no",
            "      dhcp6: no",
            "      link-local: []",
            f"      mtu: {cluster['mtu']}",
            "      optional: true",
        ]
    return "\n".join(lines) + "\n"


def drift(cluster: Mapping[str, Any], chosen: Sequence[Half], seen: Seen) -> list[str]:
    """How the interfaces differ from what is wanted, a phrase each."""
    found = [f"{path}: a change that was never confirmed" for path in seen["trial"]]
    wanted = {half.address: half.interface for half in chosen}
    for half in chosen:
        have = seen["interfaces"][half.interface]
        if not have["on"]:
            found.append(f"{half.interface}: is switched off")
        if have["mtu"] != cluster["mtu"]:
            found.append(f"{half.interface}: mtu is {have['mtu']}, not {cluster['mtu']}")
        if half.address not in have["addresses"]:
            found.append(f"{half.interface}: lacks {half.address}")
    for name, have in seen["interfaces"].items():
        ours = name in wanted.values()
        for address in have["addresses"]:
            strange = wanted.get(address, "" if ours and ":" not in address else name) != name
            if strange:
                found.append(f"{name}: has {address}, which does not belong there")
    return found
