"""Hardening that takes the GPU, or what CUDA needs, away from an engine."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from sparkwright.lint.context import Context
from sparkwright.lint.findings import Found, Verdict
from sparkwright.lint.model import Directive, Document, Engine
from sparkwright.lint.registry import files_rule
from sparkwright.lint.rules.systemd_known import true
from sparkwright.lint.rules.systemd_reading import Unit, units

# What CUDA opens, and the names of these devices in /proc/devices.
_DEVICES: Final = {
    "/dev/nvidia0": r"char-nvidia(-frontend|\*)?",
    "/dev/nvidiactl": r"char-nvidia(-frontend|\*)?",
    "/dev/nvidia-uvm": r"char-nvidia(-uvm|\*)",
}


def _on_gpu(unit: Unit, ctx: Context) -> bool:
    """Whether an engine runs in the unit itself; a container's devices are docker's affair."""
    for launch in unit.engines():
        layers = ctx.option(launch, "n-gpu-layers", "gpu-layers")
        on_cpu = launch.engine is Engine.LLAMA and layers is not None and layers.text == "0"
        if launch.image is None and not on_cpu:
            return True
    return False


@files_rule(Verdict.BLOCK)
def private_devices(docs: Sequence[Document], ctx: Context) -> Iterator[Found]:
    """PrivateDevices=yes hides the GPU.

    The service sees /dev/null and a few others only: "no CUDA-capable device is detected". vLLM
    stops; llama-server runs on the CPU and says nothing.

    Bad:
        PrivateDevices=yes

    Good:
        DevicePolicy=closed
        DeviceAllow=/dev/nvidia0 rw
        DeviceAllow=/dev/nvidiactl rw
        DeviceAllow=/dev/nvidia-uvm rw

    Source: systemd.exec(5) PrivateDevices=; rightbracket, NeuralDrive notes
    """
    for unit in units(docs):
        directive = unit.last("PrivateDevices")
        if directive is not None and true(directive.value) and _on_gpu(unit, ctx):
            yield Found(
                directive.at, "PrivateDevices=yes: the service sees no GPU",
                "remove it; write DevicePolicy=closed and DeviceAllow= for /dev/nvidia0, "
                "/dev/nvidiactl and /dev/nvidia-uvm", sees="no /dev/nvidia*",
            )  # fmt: skip


@files_rule(Verdict.BLOCK)
def device_policy(docs: Sequence[Document], ctx: Context) -> Iterator[Found]:
    """A device list without all of the GPU's devices.

    One DeviceAllow= line is enough: all other devices are then denied, also with
    DevicePolicy=auto. CUDA needs /dev/nvidia0, /dev/nvidiactl and /dev/nvidia-uvm, to read and to
    write. `*` works for `char-` groups and not for paths.

    Bad:
        DevicePolicy=closed
        DeviceAllow=/dev/nvidia* rw

    Good:
        DevicePolicy=closed
        DeviceAllow=/dev/nvidia0 rw
        DeviceAllow=/dev/nvidiactl rw
        DeviceAllow=/dev/nvidia-uvm rw

    Source: systemd.resource-control(5) DeviceAllow=
    """
    for unit in units(docs):
        policy, allowed = unit.last("DevicePolicy"), unit.all("DeviceAllow")
        closed = policy is not None and policy.value in ("closed", "strict")
        if not (closed or allowed) or not _on_gpu(unit, ctx):
            continue
        missing = [path for path in _DEVICES if not any(_allows(d, path) for d in allowed)]
        if missing:
            at = allowed[0] if allowed or policy is None else policy
            lines = ", ".join(f"DeviceAllow={path} rw" for path in missing)
            yield Found(
                at.at, f"the service may not use {', '.join(missing)}",
                f"add {lines}", sees=at.value,
            )  # fmt: skip


def _allows(directive: Directive, path: str) -> bool:
    name, _, access = directive.value.partition(" ")
    enough = not access.strip() or {"r", "w"} <= set(access.strip())
    return enough and (name == path or re.fullmatch(_DEVICES[path], name) is not None)


@files_rule(Verdict.BLOCK)
def no_executable_memory(docs: Sequence[Document], ctx: Context) -> Iterator[Found]:
    """MemoryDenyWriteExecute=yes forbids what CUDA and PyTorch do all the time.

    They compile code while they run and map it executable: the engine dies at the first kernel
    that is made at run time.

    Bad:
        MemoryDenyWriteExecute=yes

    Good:
        NoNewPrivileges=yes

    Source: systemd.exec(5) MemoryDenyWriteExecute=
    """
    for unit in units(docs):
        directive = unit.last("MemoryDenyWriteExecute")
        if directive is not None and true(directive.value) and _on_gpu(unit, ctx):
            yield Found(
                directive.at, "CUDA compiles kernels at run time, which this forbids",
                "remove MemoryDenyWriteExecute=", sees=directive.value,
            )  # fmt: skip


@files_rule(Verdict.BLOCK)
def proc_subset(docs: Sequence[Document], ctx: Context) -> Iterator[Found]:
    """ProcSubset=pid hides /proc/meminfo, from which engines on GB10 read the free memory.

    GB10 has one pool of memory: ggml takes MemAvailable of /proc/meminfo as the GPU's free memory.

    Bad:
        ProcSubset=pid

    Good:
        ProtectProc=invisible

    Source: systemd.exec(5) ProcSubset=; ggml-org/llama.cpp#17368
    """
    for unit in units(docs):
        directive = unit.last("ProcSubset")
        if directive is not None and directive.value == "pid" and _on_gpu(unit, ctx):
            yield Found(
                directive.at, "/proc/meminfo is hidden: the engine cannot tell the free memory",
                "remove ProcSubset=pid", sees="no /proc/meminfo",
            )  # fmt: skip


@files_rule(Verdict.WARN)
def rdma_devices(docs: Sequence[Document], ctx: Context) -> Iterator[Found]:
    """A rank of several machines needs /dev/infiniband and unlimited locked memory.

    Without the devices NCCL falls back to sockets, without the limit registration fails.

    Bad:
        DevicePolicy=closed
        DeviceAllow=char-nvidia* rw

    Good:
        DeviceAllow=char-nvidia* rw
        DeviceAllow=char-infiniband* rw
        LimitMEMLOCK=infinity

    Source: NVIDIA/dgx-spark-playbooks; idzik.co, four Sparks
    """
    for unit in units(docs):
        cluster = [x for x in unit.engines() if x.cluster and x.image is None]
        if not cluster:
            continue
        allowed = unit.all("DeviceAllow")
        if allowed and not any("infiniband" in directive.value for directive in allowed):
            yield Found(
                allowed[-1].at, "the service may not use /dev/infiniband: NCCL falls back to TCP",
                "add DeviceAllow=char-infiniband* rw", sees=allowed[-1].value,
            )  # fmt: skip
        if unit.main is not None and not unit.all("LimitMEMLOCK"):
            yield Found(
                cluster[0].at, "RDMA registration needs locked memory, and 8 MB are allowed",
                "add LimitMEMLOCK=infinity", sees="8M",
            )  # fmt: skip
