"""The part of `sparkwright verify` that asks members of clusters, alone and in twos."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

# States of a unit that holds memory, or is about to.
BUSY: Final = ("running", "loading", "silent", "failing")

if TYPE_CHECKING:
    from sparkwright.status_ask import Answer, Fleet
    from sparkwright.status_rows import MachineRow
    from sparkwright.verify_checks import Check


def checks(fleet: Fleet, machines: Mapping[str, MachineRow], bandwidth: bool) -> list[Check]:
    """
    Checks of clusters, for those members that answered.

    + machines: what runs where
    + bandwidth: also measure, from each head to every other member, one after the other
    """
    from sparkwright import fabric_verify

    reached = [host for host in fleet.hosts if machines[host.name].reached]
    members = [host for host in reached if host.data.dict().get("cluster")]
    if not members:
        return []
    answers = fleet.ask(lambda _, data: fabric_verify.question(data), members)
    made = fabric_verify.checks(answers)
    return [*made, *(_bandwidths(fleet, machines, members, answers) if bandwidth else [])]


def _bandwidths(
    fleet: Fleet, machines: Mapping[str, MachineRow], hosts: Sequence[Any],
    answers: Sequence[Answer],
) -> list[Check]:  # fmt: skip
    from sparkwright import fabric_bandwidth

    made, said = [], {a.name: a for a in answers if a.said is not None}
    for name, head in said.items():
        if head.data["cluster"]["rank"]:
            continue
        group = [m["name"] for m in head.data["cluster"]["members"] if m["name"] in said]
        running = [
            f"{row.recipe} on {member}"
            for member in group
            for row in machines[member].rows
            if row.state in BUSY
        ]
        if running:
            made.append(fabric_bandwidth.refused(running, head))
            continue
        for other in group:
            if other != name:
                made.append(_measure(fleet, hosts, head, said[other]))
    return made


def _measure(fleet: Fleet, hosts: Sequence[Any], head: Answer, member: Answer) -> Check:
    from sparkwright import fabric_bandwidth

    questions = fabric_bandwidth.questions(head, member)
    ends = [host for host in hosts if host.name in questions]
    told = {answer.name: answer for answer in fleet.ask(lambda name, _: questions[name], ends)}
    rdma = '"rdma": true' in questions[head.name][1]
    return fabric_bandwidth.check(head, member, told[head.name], rdma)
