"""
Container: images of container recipes, pulled by digest or loaded from a file, and asked.

Leaves: images in docker, a record of each in /var/lib/sparkwright/images
Needs:  docker (DGX OS has it; it is never installed or changed here), tasks.base (our programs)
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from pyinfra import host
from pyinfra.api import deploy

from sparkwright.image_copies import NoCopies, place
from sparkwright.image_needs import artifacts, users, wanted
from sparkwright.images import plan, probes
from sparkwright.job_operations import detached
from sparkwright.leftover_containers import LeftContainers
from sparkwright.operations import ensure
from sparkwright.site import lock_of, planned


@deploy("container")
def install(data: Mapping[str, Any]) -> None:
    """One job an image; what runs goes on until tasks/serve.py finds everything in place."""
    items = planned(data)
    found = artifacts(items, lock_of(data))
    for want in host.loop(wanted(items, found, data)):
        detached(
            name=f"Have {want.named}",
            specs=probes(want.image),
            plan=partial(plan, want),
        )
    if users(items):
        ensure(
            name="Remove containers that no unit has, and copies of images that nobody gives",
            resources=[LeftContainers(), NoCopies(place(data["data_dir"]))],
        )
