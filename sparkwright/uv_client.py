"""The small environment on a machine that holds the pinned uv, which makes vLLM's. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from sparkwright.jobs import JobPlan
from sparkwright.resources import Spec, State
from sparkwright.small_venv import SmallVenv

REQUIREMENTS = "/opt/sparkwright/requirements/uv.txt"
PROOF = (
    "import subprocess, uv; t = subprocess.check_output([uv.find_uv_bin(), '--version']); "
    "assert t.split()[1] == b'0.13.9', t"
)


def program(prefix: str) -> str:
    """uv's path on a machine."""
    return f"{prefix}/uv/current/bin/uv"


def _venv() -> SmallVenv:
    return SmallVenv("uv", "uv", REQUIREMENTS, PROOF)


def probes(prefix: str) -> list[Spec]:
    """Questions: which Python, which environment is current, are its files as installed."""
    return _venv().probes(prefix)


def plan(
    prefix: str, requirements_sha256: str, states: Sequence[State], index: str | None = None
) -> JobPlan:
    """What has to happen so that {prefix}/uv/current is the wanted environment."""
    return _venv().plan(prefix, requirements_sha256, states, index)
