"""What members of a cluster see of each other, and what they change together only. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from sparkwright.errors import Problems
from sparkwright.fabric import WHERE, Seen

# An IPv4 header without options and the header of ICMP echo (RFC 791, RFC 792).
HEADERS: Final = 20 + 8


def pings(cluster: Mapping[str, Any]) -> list[tuple[str, str, int]]:
    """(own address, peer, payload bytes) for every other member and half; 8972 for MTU 9000."""
    own = cluster["members"][cluster["rank"]]["fabric"]
    size = cluster["mtu"] - HEADERS
    return [
        (mine, theirs, size)
        for member in cluster["members"]
        if member["fabric"] != own
        for mine, theirs in zip(own, member["fabric"], strict=True)
    ]


def unreached(cluster: Mapping[str, Any], seen: Seen) -> list[str]:
    """Members that do not answer whole packets, a phrase each."""
    names = {at: m["name"] for m in cluster["members"] for at in m["fabric"]}
    found = []
    for own, peer, _, answer in seen["pings"]:
        whom = f"{names[peer]} at {peer}"
        if answer == "none":
            found.append(f"{whom} does not answer {own}; is it converged, and its cable in?")
        elif answer != "ok":
            found.append(
                f"{whom} answers {own} only in small packets, not in {cluster['mtu']} bytes; its "
                "MTU or the switch's is smaller: sparkwright verify names the side"
            )
    return found


def differences(
    members: Mapping[str, Mapping[str, str]], may_differ: Sequence[str] = ()
) -> list[str]:
    """
    Versions that are not the same on all members, a phrase each.

    A pair with drivers 580.126 and 580.95 was 2.4 times slower (al-engr.com), and Ray refuses
    members with another Python or Ray (ray-project/ray#44063).

    + members: name -> what -> version, from a machine's `versions`
    + may_differ: last words of what is not compared ("kernel", "python")
    """
    found = []
    for what in sorted({what for versions in members.values() for what in versions}):
        if what.split()[-1] in may_differ:
            continue
        held: dict[str, list[str]] = {}
        for name, versions in members.items():
            held.setdefault(versions.get(what, "not there"), []).append(name)
        if len(held) > 1:
            shown = ", ".join(f"{version} on {' and '.join(n)}" for version, n in held.items())
            found.append(f"{what} is {shown}")
    return found


def doubles(machines: Mapping[str, tuple[str, str]]) -> Iterator[tuple[str, str, str]]:
    """
    (name, what is wrong, what to do) for machines that have the machine id of another.

    + machines: name -> (machine id, boot id)
    """
    first: dict[str, str] = {}
    for name, (machine, boot) in machines.items():
        other = first.setdefault(machine, name)
        if not machine or other == name:
            continue
        if machines[other][1] == boot:
            what = f"is the same machine as {other} (machine-id {machine})"
            yield name, what, "keep one of the two in sparks.yaml"
        else:
            what = f"has the machine-id of {other}, {machine}: its disk was copied"
            hint = "on one of them: sudo rm /etc/machine-id; sudo systemd-machine-id-setup; reboot"
            yield name, what, hint


def together(cluster: Mapping[str, Any], gone: Sequence[str], problems: Problems) -> None:
    """Another network than the one in force: with half of a cluster on it, what runs would stop.

    + gone: members that do not change at the same time
    """
    if gone:
        what = (
            f"{', '.join(gone)} takes no part in this run, or has another turn (--serial), and the "
            f"network of cluster {cluster['name']} changes on all of its members together"
        )
        problems.add(WHERE, what, "bring it back and run for all of them")
