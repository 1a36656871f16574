"""
Acceptance: after each start the recipe's question, through the real API.

Leaves: /var/lib/sparkwright/accepted/<unit>.json, the id of the start that answered
Needs:  tasks.serve
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyinfra import host
from pyinfra.api import deploy

from sparkwright.place import place_of
from sparkwright.serve_operations import accepted
from sparkwright.site import planned


@deploy("acceptance")
def ask(data: Mapping[str, Any]) -> None:
    """A unit counts as converged when it answered; HTTP 200 proves nothing."""
    for item in host.loop(planned(data)):
        accepted(name=f"Ask {item.unit}", item=item, place=place_of(data))
