"""vLLM's CPU platform, which Ray may place: vLLM gives a Ray resource to GPUs alone.

vllm/v1/executor/ray_utils.py, initialize_ray_cluster, ends with "does not support ray" on a
platform whose `ray_device_key` is empty, as that of CPUs is (vllm/platforms/interface.py). This is
vLLM's own interface for platforms (vllm.platform_plugins); its files stay as they are.
"""

from __future__ import annotations

from vllm.platforms.cpu import CpuPlatform


class RayCpu(CpuPlatform):  # type: ignore[misc]
    """A CPU that counts as the "GPU" of its machine, for Ray's bundles alone."""

    ray_device_key = "GPU"

    @classmethod
    def get_device_communicator_cls(cls) -> str:
        return "sparkwright_lab_communicator.Gloo"
