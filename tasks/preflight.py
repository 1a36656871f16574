"""
Preflight: all checks on all machines first, all problems in one report.

Leaves: nothing
Needs:  python3 and sudo on the machine
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyinfra import state

from sparkwright import interrupts, report, vllm_needs
from sparkwright.errors import SparkwrightError
from sparkwright.image_needs import image_names
from sparkwright.preflight_run import check_fleet
from sparkwright.push_ready import unready
from sparkwright.site import artifact


def check() -> None:
    """Raise before anything is prepared when a machine or the lock is not ready."""
    interrupts.listen()
    report.summarize()
    check_fleet(state, artifact_problems)


def artifact_problems(data: Mapping[str, Any]) -> list[str]:
    """Artifacts that this machine's converge needs and that the lock does not resolve."""
    problems = []
    names = ["llama.cpp-source", "hub-client", "tiktoken-o200k_base"]
    if data["cuda_required"]:
        names += ["cuda-keyring", "cuda-repo"]
    names += [*image_names(data), *vllm_needs.artifact_names(data)]
    for name in names:
        try:
            artifact(data, name)
        except SparkwrightError as error:
            problems.append(str(error))
    return [*problems, *unready(data)]
