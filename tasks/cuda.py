"""
CUDA 13 toolkit: found where DGX OS has it, or installed from NVIDIA's signed repository.

Leaves: an nvcc of at least {cuda_version_min}; never a driver, kernel or container toolkit package
Needs:  tasks.base (gpg, our programs)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyinfra.api import deploy

from sparkwright.cuda_operations import toolkit
from sparkwright.site import artifact
from sparkwright.sources import source_of


@deploy("CUDA")
def install(data: Mapping[str, Any]) -> None:
    """Probe first; a toolkit that is new enough is left alone."""
    if not data["cuda_required"]:
        return
    repository, keyring = artifact(data, "cuda-repo"), artifact(data, "cuda-keyring")
    toolkit(
        name="Have a CUDA toolkit",
        minimum=data["cuda_version_min"],
        repository=repository,
        keyring=keyring,
        only=source_of(data).only(),
    )
