"""A bridge with an address of its own, and one namespace and one cable per machine."""

from __future__ import annotations

import ipaddress
import json

from .host import LabError, run
from .records import Record, load_all

# What the switch carries: a Spark's ConnectX-7 takes 9000 and a little more.
FABRIC_MTU = "9216"
# 10.64.0.0/10 is rarely used by home and office networks; every /24 of it is tried.
POOL = ipaddress.IPv4Network("10.64.0.0/10")


def _used() -> list[ipaddress.IPv4Network]:
    """Networks that this host has an address or a route in, and those of other labs."""
    found = [ipaddress.IPv4Network(record.subnet) for record in load_all() if record.subnet]
    for link in json.loads(run("ip", "-json", "-4", "address").stdout):
        for entry in link.get("addr_info", []):
            text = f"{entry['local']}/{entry['prefixlen']}"
            found.append(ipaddress.IPv4Network(text, strict=False))
    for route in json.loads(run("ip", "-json", "-4", "route", "show", "table", "all").stdout):
        if route["dst"] != "default":
            found.append(ipaddress.IPv4Network(route["dst"], strict=False))
    return found


def free_subnet(tag: str) -> str:
    """A /24 that overlaps nothing here; hold the lock until the record that names it is saved.

    The search starts at a place given by the tag, so that two hosts rarely pick the same.
    """
    used = _used()
    candidates = list(POOL.subnets(new_prefix=24))
    first = int(tag, 16) % len(candidates)
    for network in candidates[first:] + candidates[:first]:
        if not any(network.overlaps(other) for other in used):
            return str(network)
    raise LabError(f"{POOL}: no free /24; take down old labs with `python -m tests.lab down`")


def address(record: Record, number: int) -> str:
    """The upstream is .1; machine 0 has .11."""
    return str(ipaddress.ip_network(record.subnet)[number])


def create_bridge(record: Record) -> None:
    """The switch; it carries the upstream's address, and nothing routes from it to the outside."""
    run("ip", "link", "add", record.bridge, "type", "bridge")
    run("ip", "address", "add", f"{address(record, 1)}/24", "dev", record.bridge)
    run("ip", "link", "set", record.bridge, "up")


def names(record: Record, index: int) -> tuple[str, str]:
    """(namespace, host end of the cable) of a machine; the kernel allows 15 characters a link."""
    return f"swl-{record.tag}-{index}", f"swl{record.tag}v{index}"


def plug_in(record: Record, index: int, machine_address: str) -> None:
    """Make the namespace, its eth0 and the cable. There is no default route on purpose."""
    namespace, cable = names(record, index)
    record.namespaces.append(namespace)
    record.links.append(cable)
    record.save()
    run("ip", "netns", "add", namespace)
    run("ip", "link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", namespace)
    run("ip", "link", "set", cable, "master", record.bridge, "up")
    inside = ("ip", "-n", namespace)
    run(*inside, "address", "add", f"{machine_address}/24", "dev", "eth0")
    run(*inside, "link", "set", "lo", "up")
    run(*inside, "link", "set", "eth0", "up")


def fabric_bridge(record: Record, half: int) -> str:
    """The switch that carries half number `half` of every fabric cable."""
    return f"swl{record.tag}f{half}"


def create_fabric(record: Record, halves: int) -> None:
    """A switch a half, apart from the machines' own network; no address of the host is on it."""
    for half in range(halves):
        bridge = fabric_bridge(record, half)
        record.links.append(bridge)
        record.save()
        run("ip", "link", "add", bridge, "mtu", FABRIC_MTU, "type", "bridge")
        run("ip", "link", "set", bridge, "up")


def fabric_cable(record: Record, index: int, half: int) -> str:
    """The host end of a machine's fabric cable: what tc shapes and `cut_fabric` pulls."""
    return f"swl{record.tag}v{index}f{half}"


def plug_fabric(record: Record, index: int, halves: int) -> None:
    """Plug fab0, fab1 ... in: interfaces of the machine, one a half, with nothing configured."""
    namespace = names(record, index)[0]
    for half in range(halves):
        cable = fabric_cable(record, index, half)
        record.links.append(cable)
        record.save()
        run("ip", "link", "add", cable, "mtu", FABRIC_MTU, "type", "veth", "peer", "name",
            f"fab{half}", "netns", namespace)  # fmt: skip
        run("ip", "link", "set", cable, "master", fabric_bridge(record, half), "up")
    power_on_fabric(record, index, halves)


def power_on_fabric(record: Record, index: int, halves: int) -> None:
    """Give the fabric's interfaces the state of a boot: up, 1500, no address.

    A namespace outlives its machine; the interfaces of a real one forget everything at a reboot.
    """
    inside = ("ip", "-n", names(record, index)[0])
    for half in range(halves):
        run(*inside, "address", "flush", "dev", f"fab{half}")
        run(*inside, "link", "set", f"fab{half}", "mtu", "1500", "up")


def set_fabric_cable(record: Record, index: int, half: int, state: str) -> None:
    """Pull one half of the machine's fabric cable ("down") or put it back ("up")."""
    run("ip", "link", "set", fabric_cable(record, index, half), state)


def set_cable(record: Record, index: int, state: str) -> None:
    """Pull the machine's cable ("down") or put it back ("up")."""
    run("ip", "link", "set", names(record, index)[1], state)
