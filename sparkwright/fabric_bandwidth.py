"""The bandwidth between the head of a cluster and another member: question and verdict. Pure.

`sparkwright verify --bandwidth` runs it, never a converge.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from sparkwright import fabric
from sparkwright.errors import Problems
from sparkwright.fabric_verify import DOCS
from sparkwright.status_ask import Answer
from sparkwright.verify_checks import Check

# 4 GB at most over all halves (dgx-spark-playbooks#103 names 1 to 4 GB as harmless), and no longer
# than this on a slow link; the other end may start a little later (our choices).
BYTES: Final = 3_600_000_000
SECONDS: Final = 5
WAIT_S: Final = 15
PORT: Final = 29400  # the first of one a half; nothing of ours listens there
# A ConnectX-7 that came up degraded moves about 13 Gb/s, 8 to 25 were seen (playbooks#108).
DEGRADED_GB_S: Final = 25 / 8
NAME: Final = "bandwidth"


def questions(head: Answer, member: Answer) -> dict[str, tuple[str, str]]:
    """Program and spec for both ends by name, from their answers to fabric_verify.question."""
    ends = {answer.name: _halves(answer) for answer in (head, member)}
    mine, theirs = ends[head.name], ends[member.name]
    rdma = all(half.device for half in (*mine, *theirs)) and all(
        answer.said["tools"].get("ib_write_bw") for answer in (head, member)
    )
    common = {"rdma": rdma, "bytes": BYTES // max(1, len(mine)), "seconds": SECONDS}
    made = {}
    for answer, role, own, peer in (
        (head, "send", mine, theirs), (member, "serve", theirs, mine)
    ):  # fmt: skip
        rows = [
            [a.address.partition("/")[0], b.address.partition("/")[0], a.device, PORT + at]
            for at, (a, b) in enumerate(zip(own, peer, strict=True))
        ]
        spec = {**common, "role": role, "wait_s": WAIT_S, "halves": rows}
        made[answer.name] = ("fabric_speed.py", json.dumps(spec))
    return made


def _halves(answer: Answer) -> tuple[fabric.Half, ...]:
    cluster = answer.data["cluster"]
    return fabric.halves(cluster, cluster["rank"], answer.said, Problems())


def check(head: Answer, member: Answer, told: Answer, rdma: bool) -> Check:
    """
    What the sender said, judged.

    + head, member: answers to fabric_verify.question; told: the head's to `questions`
    """
    name = f"cluster {head.data['cluster']['name']}"
    wanted = f"at least {head.data['fabric_pass_gb_s']} GB/s"
    look = f"sparkwright verify --bandwidth --limit {head.name} --limit {member.name}"
    if told.said is None:
        return Check(name, "", NAME, None, told.why, wanted, look, DOCS)
    rates: Sequence[float] = told.said["halves"]
    means = "RDMA writes" if rdma else "TCP"
    each = " + ".join(f"{rate:.2f}" for rate in rates)
    seen = f"{sum(rates):.2f} GB/s ({each}) by {means} from {head.name} to {member.name}"
    ok, hint = verdict(rates, told.said["why"], rdma, head.data)
    return Check(name, "", NAME, ok, f"{seen}; {hint}" if hint else seen, wanted, look, DOCS)


def verdict(
    rates: Sequence[float], why: Sequence[str], rdma: bool, data: Mapping[str, Any]
) -> tuple[bool | None, str]:
    """
    (well, wrong, or None: cannot be told), and the likely cause.

    TCP below the mark proves nothing: the mark is NVIDIA's for RDMA, and Python is slower.
    """
    if sum(rates) >= data["fabric_pass_gb_s"]:
        return True, ""
    silent = [reason for rate, reason in zip(rates, why, strict=True) if not rate]
    if silent and any(rates):
        return False, f"one half alone carries everything: {silent[0]}"
    if silent:
        return False, f"nothing came through: {silent[0]}"
    if sum(rates) < DEGRADED_GB_S and data["fabric_speed_mbps"]:
        return False, (
            "a port that came up degraded moves about 13 Gb/s: update its firmware, then switch "
            "the machine's power off and on"
        )
    if not rdma:
        return None, "TCP cannot reach the mark; for RDMA: sudo apt-get install perftest"
    return False, "an MTU that is small on one side costs most: see the check of the MTU"


def refused(running: Sequence[str], head: Answer) -> Check:
    """The test is not run beside a model: it takes the fabric away from it."""
    name, units = f"cluster {head.data['cluster']['name']}", ", ".join(running)
    wanted = f"at least {head.data['fabric_pass_gb_s']} GB/s"
    return Check(name, "", NAME, None, f"not measured while {units} runs there", wanted,
                 "stop it first: sudo systemctl stop UNIT", DOCS)  # fmt: skip
