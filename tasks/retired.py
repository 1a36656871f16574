"""
Retired: units of ours that the fleet no longer lists are stopped, disabled and removed.

Leaves: no llm-*.service of ours beside the listed ones; weights stay until they are pruned by hand
Needs:  nothing; it runs before tasks.serve so that memory and ports are free for what comes
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyinfra.api import deploy

from sparkwright.pair import unit_names
from sparkwright.serve_operations import retired
from sparkwright.site import planned


@deploy("retired")
def remove(data: Mapping[str, Any]) -> None:
    """Only files with our marker are touched."""
    units = [name for item in planned(data) for name in unit_names(item)]
    retired(name="Remove units no longer listed", units=units)
