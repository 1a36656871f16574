"""The variables by which NCCL, gloo, UCX, MPI and vLLM find the fabric of one machine. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparkwright.errors import Problems
from sparkwright.fabric import WHERE, Half, Seen, halves


def fabric_env(cluster: Mapping[str, Any], rank: int, seen: Seen) -> dict[str, str]:
    """
    Variables for the member of a rank, from what that machine said of itself.

    Sockets (the meeting, gloo, MPI) take the first half; the data takes the RDMA devices of all
    halves, for one alone is half of the bandwidth (dgx-spark-playbooks#103: 3 GB/s, with both
    23.74). What a machine has not is left out, never empty: an empty NCCL_IB_HCA is not "any".
    No NCCL_IB_GID_INDEX: its number differs between boxes, and NCCL finds RoCE v2 by itself.

    + cluster: a machine's data `cluster`; seen: from fabric.read
    + raises SparkwrightError when an interface is not there or lacks the member's address
    """
    problems = Problems()
    chosen = halves(cluster, rank, seen, problems)
    for half in chosen:
        if half.address not in seen["interfaces"][half.interface]["addresses"]:
            what = f"{half.interface} lacks {half.address}"
            problems.add(WHERE, what, "converge the cluster's fabric first")
    problems.raise_if_any()
    first, member = chosen[0].interface, cluster["members"][rank]
    # One interface for all five, as NVIDIA's playbook "vLLM on two Sparks" has it: where they
    # disagree, one library meets the others on a network that it does not know.
    sockets = (
        "NCCL_SOCKET_IFNAME",
        "GLOO_SOCKET_IFNAME",
        "TP_SOCKET_IFNAME",
        "UCX_NET_DEVICES",
        "OMPI_MCA_btl_tcp_if_include",
    )
    return {
        **dict.fromkeys(sockets, first),
        **_rdma(chosen),
        "VLLM_HOST_IP": member["fabric"][0],
    }


def _rdma(chosen: tuple[Half, ...]) -> dict[str, str]:
    devices = [half.device for half in chosen if half.device]
    if len(devices) < len(chosen):
        return {}
    return {
        "NCCL_IB_HCA": ",".join(devices),
        # Halves are in networks of their own: NVIDIA's spark_cluster_setup sets this.
        "NCCL_IB_SUBNET_AWARE_ROUTING": "1",
        # GB10 has no GPUDirect RDMA (NVIDIA's DGX Spark porting notes; sparkrun sets 0).
        "NCCL_NET_GDR_LEVEL": "0",
    }
