"""
Artifacts: an air gap's part of the bundle, before anything else on the machine needs it.

Leaves: {data_dir}/bundle with what this machine needs, when the laptop is the source
Needs:  python3, sudo and sshd on the machine
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyinfra.api import deploy

from sparkwright.push_operations import mirrored, pushed
from sparkwright.sources import lock_sha256, source_of


@deploy("artifacts")
def bring(data: Mapping[str, Any]) -> None:
    """Push, or ask the mirror; upstream needs neither."""
    source = source_of(data)
    if source.directory:
        pushed(name="Push the bundle", data=data)
    elif source.plain:
        mirrored(name="Ask the mirror", url=source.origin, lock_sha256=lock_sha256(data))
