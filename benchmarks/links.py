"""The lab's links with the speeds of a real site, by tc's token bucket (tc-tbf(8)).

+ uplink: from the laptop and the upstream, which are the host, to all machines together: the
  bridge's own sending side, which what machines send to one another does not pass
+ fabric: each machine's cable, both ways
"""

from __future__ import annotations

from tests.lab import network
from tests.lab.host import run
from tests.lab.lab import Lab

UPLINK_BPS, FABRIC_BPS = 10**9, 10**10


def _bucket(rate: int) -> list[str]:
    # A bucket of 5 ms: whole segments of 64 KiB go through, and no burst shows in a second.
    return ["root", "tbf", "rate", f"{rate}bit", "burst", str(rate // 8 // 200), "latency", "50ms"]


def shape(lab: Lab) -> None:
    """Give every link its speed. Raises LabError where the kernel has no tbf."""
    run("tc", "qdisc", "replace", "dev", lab.record.bridge, *_bucket(UPLINK_BPS))
    for machine in lab.machines:
        namespace, cable = network.names(lab.record, machine.index)
        run("tc", "qdisc", "replace", "dev", cable, *_bucket(FABRIC_BPS))
        run("tc", "-n", namespace, "qdisc", "replace", "dev", "eth0", *_bucket(FABRIC_BPS))
