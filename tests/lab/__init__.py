"""A lab of real machines on one computer: systemd, sshd, own addresses, no internet.

    with start_lab(machines=2) as lab:
        lab.machines[0].ssh("hostname")

By hand: `python -m tests.lab up --machines 2`, later `python -m tests.lab down`.
"""

from __future__ import annotations

from .host import LabError, cache_dir
from .lab import Lab, start_lab
from .machine import Machine
from .setting import Bind
from .upstream import Upstream

__all__ = ["Bind", "Lab", "LabError", "Machine", "Upstream", "cache_dir", "start_lab"]
