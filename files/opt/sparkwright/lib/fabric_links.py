"""Interfaces as the kernel has them: remembered before a change, and put back after a bad one."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any

# netplan waits for its backend (netplan-apply(8)); our choice.
NETPLAN_S = 90
# Seconds: so long nothing may change, and so long that is waited for at most (our choices).
# networkd goes on after `netplan apply` has returned. In the lab (systemd 252) an address came back
# after it had been taken away, and one given by hand meanwhile made networkd fail for good.
QUIET_S, BACK_S = 3.0, 20.0


class Failed(Exception):
    """The trial did not pass; the message says why."""


def run(*argv: str) -> str:
    """Output of a command. Raises Failed with its last line."""
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, check=False, timeout=NETPLAN_S,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise Failed(f"{' '.join(argv)}: not done within {NETPLAN_S} s") from None
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or ["no reason given"]
        raise Failed(f"{' '.join(argv)}: {lines[-1]}")
    return done.stdout


def attempt(*argv: str) -> None:
    """A command of the way back: one that fails is told, and the next is tried."""
    try:
        run(*argv)
    except Failed as error:
        print(error, file=sys.stderr)


def links() -> dict[str, Any]:
    """MTU, state and addresses of every interface; link-local ones are the kernel's."""
    return {
        link["ifname"]: {
            "mtu": link["mtu"],
            "on": "UP" in link["flags"],
            "addresses": [
                f"{a['local']}/{a['prefixlen']}"
                for a in link.get("addr_info", [])
                if a["scope"] != "link"
            ],
        }
        for link in json.loads(run("ip", "-json", "address"))
    }


def remember(names: Iterable[str]) -> dict[str, Any]:
    """What interfaces have now, with their routes."""
    now = links()
    return {
        name: {**now[name], "routes": routes(name)} for name in sorted(set(names)) if name in now
    }


def routes(name: str) -> list[str]:
    """Routes of an interface but those that the kernel makes with an address; gateways last, for
    they need a way to themselves first."""
    lines = run("ip", "route", "show", "dev", name).replace(" linkdown", "").splitlines()
    return sorted((text for text in lines if "proto kernel" not in text), key=_has_gateway)


def _has_gateway(route: str) -> bool:
    return " via " in route


def put_back(before: dict[str, Any]) -> None:
    """Give interfaces back what they had, when nobody else is at work on them."""
    began = quiet = time.monotonic()
    seen = remember(before)
    while (now := time.monotonic()) - quiet < QUIET_S and now - began < BACK_S:
        time.sleep(0.2)
        if (found := remember(before)) != seen:
            seen, quiet = found, now
    restore(before)


def restore(before: dict[str, Any]) -> None:
    """Give interfaces back what they had."""
    now = links()
    for name, was in before.items():
        have = now.get(name, {"mtu": 0, "on": False, "addresses": []})
        if have["mtu"] != was["mtu"]:
            attempt("ip", "link", "set", name, "mtu", str(was["mtu"]))
        if have["on"] != was["on"]:
            attempt("ip", "link", "set", name, "up" if was["on"] else "down")
        # First those that go: the kernel takes others of the same network with them.
        for address in have["addresses"]:
            if address not in was["addresses"]:
                attempt("ip", "address", "delete", address, "dev", name)
        now_has = links().get(name, have)["addresses"]
        for address in was["addresses"]:
            if address not in now_has:
                attempt("ip", "address", "replace", address, "dev", name)
        for route in was["routes"] if was["on"] else ():
            attempt("ip", "route", "replace", *route.split(), "dev", name)


def tidy(wanted: Sequence[Sequence[Any]], dropped: Iterable[str]) -> None:
    """Take IPv4 addresses away that the fabric's interfaces should not have, or others have.

    + dropped: interfaces that our file named until now
    """
    home = {address: name for name, address, _ in wanted}
    ours = {*home.values(), *dropped}
    for name, have in links().items():
        for address in have["addresses"]:
            stays = home.get(address, "" if name in ours and ":" not in address else name)
            if stays != name:
                run("ip", "address", "delete", address, "dev", name)
