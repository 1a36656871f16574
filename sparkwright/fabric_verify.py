"""Checks of clusters for `sparkwright verify` that need the halves of the cable. Pure.

Whole packets to every member, and versions of kernel and driver: verify_checks.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from sparkwright import fabric, fabric_judge
from sparkwright.errors import Problems
from sparkwright.status_ask import Answer
from sparkwright.verify_checks import Check

DOCS: Final = "docs/multi-spark.md#the-fabrics-network"
# Compared for every fleet by verify_checks.across.
_ELSEWHERE: Final = ("kernel", "driver")


def question(data: Mapping[str, Any]) -> tuple[str, str]:
    """What a member is asked: its network, and what lies in its vLLM environments."""
    spec = {"ours": fabric.FILE, "venvs": f"{data['prefix']}/vllm"}
    return "fabric_seen.py", json.dumps(spec)


def checks(answers: Sequence[Answer]) -> list[Check]:
    """Every check of every cluster, from members' answers to `question`."""
    made: list[Check] = []
    groups: dict[str, list[Answer]] = {}
    for answer in answers:
        groups.setdefault(answer.data["cluster"]["name"], []).append(answer)
        made.append(_member(answer))
    for name, members in groups.items():
        made += _group(name, [member for member in members if member.said is not None])
    return made


def _member(answer: Answer) -> Check:
    name, cluster = answer.name, answer.data["cluster"]
    wanted = f"its halves with their addresses and MTU {cluster['mtu']}"
    look = f"sparkwright check --limit {name}"
    if answer.said is None:
        return Check(name, "", "halves", None, answer.why, wanted, look, DOCS)
    problems = Problems()
    chosen = fabric.halves(cluster, cluster["rank"], answer.said, problems)
    fabric.refused(chosen, answer.said, answer.data["fabric_speed_mbps"], problems)
    wrong = [f"{problem.what}; {problem.hint}" for problem in problems]
    wrong += fabric.drift(cluster, chosen, answer.said)
    seen = "; ".join(wrong) or ", ".join(f"{half.interface} {half.address}" for half in chosen)
    return Check(name, "", "halves", not wrong, seen, wanted, look, DOCS)


def _group(name: str, members: Sequence[Answer]) -> list[Check]:
    """What lies in the vLLM environments of all members, side by side."""
    held = {
        member.name: {w: v for w, v in member.said["versions"].items() if w not in _ELSEWHERE}
        for member in members
    }
    if len(held) < 2 or not any(held.values()):
        return []
    differing = fabric_judge.differences(held, members[0].data["cluster_may_differ"])
    seen = "; ".join(differing) or ", ".join(f"{w} {v}" for w, v in held[members[0].name].items())
    return [Check("all", name, "same libraries", not differing, seen, "one version of each",
                  "sparkwright check", DOCS)]  # fmt: skip
