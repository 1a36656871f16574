"""
Fabric: the ConnectX-7 interfaces that join the sparks of a cluster.

Leaves: /etc/netplan/40-sparkwright-fabric.yaml in force, every member reached with whole packets
Needs:  tasks.base (our programs), netplan, a network for SSH that is not the fabric
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyinfra.api import deploy

from sparkwright.fabric_operations import configured, left, reached


@deploy("fabric")
def join(data: Mapping[str, Any]) -> None:
    """Configure on all machines first, then ask: the last one done answers the first."""
    if data["cluster"]:
        configured(name="Configure the fabric", data=data)
        reached(name="Reach every member over the fabric", data=data)
    else:
        left(name="Have no fabric", data=data)
