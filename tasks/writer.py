"""
Writer: one converge at a time changes a machine; another one is told who is at it.

Leaves: /run/sparkwright/lock while the run lasts
Needs:  python3 on the machine
"""

from __future__ import annotations

from pyinfra.api import deploy

from sparkwright.writer_operations import alone


@deploy("writer")
def lock() -> None:
    """All machines of the run or none."""
    alone(name="Be the only one")
