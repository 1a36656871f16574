"""A bridge with an address of its own, and one namespace and one cable per machine."""

from __future__ import annotations

import ipaddress
import json

from .host import LabError, run
from .records import Record, load_all

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


def set_cable(record: Record, index: int, state: str) -> None:
    """Pull the machine's cable ("down") or put it back ("up")."""
    run("ip", "link", "set", names(record, index)[1], state)
