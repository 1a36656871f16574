"""The small environment on a machine that holds the pinned huggingface_hub. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from sparkwright.jobs import JobPlan
from sparkwright.resources import Spec, State
from sparkwright.small_venv import SmallVenv

REQUIREMENTS = "/opt/sparkwright/requirements/hub-client.txt"
PROOF = "import huggingface_hub as h; assert h.__version__ == '2.4.0', h.__version__"


def _venv() -> SmallVenv:
    return SmallVenv("hub-client", "Hub client", REQUIREMENTS, PROOF)


def probes(prefix: str) -> list[Spec]:
    """Questions: which Python, which environment is current, are its files as installed."""
    return _venv().probes(prefix)


def plan(
    prefix: str, requirements_sha256: str, states: Sequence[State], index: str | None = None
) -> JobPlan:
    """What has to happen so that {prefix}/hub-client/current is the wanted environment."""
    return _venv().plan(prefix, requirements_sha256, states, index)
