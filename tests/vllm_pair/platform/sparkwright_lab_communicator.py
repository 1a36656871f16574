"""How the ranks of that platform talk: over the network. A module of its own, since it is loaded
when vLLM knows its platform already."""

from __future__ import annotations

from vllm.distributed.device_communicators.cpu_communicator import CpuCommunicator


class Gloo(CpuCommunicator):  # type: ignore[misc]
    """Over Ray all ranks have one name for shared memory, also those on different machines."""

    def _all_group_ranks_share_shm_group_name(self) -> bool:
        return False
