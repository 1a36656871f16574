"""A control group per machine: systemd as PID 1 manages "its" tree, so two must not share one.

The group is also how a machine's power is cut: killing systemd-nspawn alone leaves its PID 1.
"""

from __future__ import annotations

import time
from pathlib import Path

from .host import LabError

# A killed process that waits for the disk ends when the disk has answered; with 40 machines on two
# cores that took more than 10 s (seen), and a lab was left behind.
WAIT_S = 90.0


def hierarchies() -> list[Path]:
    """Mount points of cgroup2 and of systemd's own version 1 hierarchy, where there is one."""
    found = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, right = line.split(" - ", 1)
        kind, _, options = right.split(maxsplit=2)
        if kind == "cgroup2" or (kind == "cgroup" and "name=systemd" in options.split(",")):
            found.append(Path(left.split()[4]))
    return found


def names(tag: str, index: int) -> list[Path]:
    """The groups of a machine, one per hierarchy."""
    return [top / f"sparkwright-lab-{tag}-{index}" for top in hierarchies()]


def kill(group: Path, wait: float = WAIT_S) -> None:
    """End every process of a group at once; version 1 has no such switch and needs none.

    **Raises**: `LabError` when one is still there after `wait` seconds.
    """
    switch = group / "cgroup.kill"  # cgroup2 since Linux 5.14
    if not switch.exists():
        return
    switch.write_text("1")
    deadline = time.monotonic() + wait
    while "populated 1" in (group / "cgroup.events").read_text():
        if time.monotonic() > deadline:
            raise LabError(f"{group}: processes did not end within {wait:.0f} s")
        time.sleep(0.02)


def remove(group: Path) -> None:
    """Remove an empty group, from the leaves up."""
    if group.exists():
        for folder in sorted([*group.rglob("*/"), group], key=lambda path: -len(path.parts)):
            folder.rmdir()
