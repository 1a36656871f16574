"""Causes that need a GPU, a second Spark or NVIDIA's driver: their words, written by stand-ins.

systemd, journal, llama-server, SSH and doctor are real; fakes/fake_vllm.py, fake_nvidia_smi.sh and
fake_kernel.py say what they replace.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .patient import FAKE, Patient
from .scene import Act, Scene, dropin, here, machine

SAID = "fake_vllm writes the line into the unit's journal and ends as vLLM does; systemd is real"
SLOW = "fake_vllm writes the line into the unit's journal; then the real llama-server serves"
SMI = "fake_nvidia_smi stands in for NVIDIA's program"
KERNEL = "fake_kernel writes the line where journald reads the kernel's; journald is real"


def _smi(case: str) -> Act:
    @contextmanager
    def act(patient: Patient) -> Iterator[None]:
        patient.root(f"echo {case} >/opt/fake/nvidia-smi.case; "
                     "ln -s /opt/fake/fake_nvidia_smi.sh /usr/bin/nvidia-smi")  # fmt: skip
        try:
            yield
        finally:
            patient.root("rm /usr/bin/nvidia-smi")

    return act


def _kernel(line: str) -> Act:
    @contextmanager
    def act(patient: Patient) -> Iterator[None]:
        patient.kernel(line)
        try:
            yield
        finally:
            patient.forget()

    return act


def _said(case: str, cause: str, real: str = SAID) -> Scene:
    return Scene(real, dropin(f"{FAKE} {case}"), here(cause))


SCENES: tuple[Scene, ...] = (
    _said("no-kernels", "the program has no kernels for this GPU"),
    _said("other-kernels", "kernels of another GPU run", SLOW),
    _said("ptxas", "Triton's own ptxas does not know this GPU"),
    _said("gpu-memory", "the GPU has no memory left"),
    _said("share", "less memory is free than vLLM's share"),
    _said("context", "the context is larger than the KV cache"),
    _said("killed", "it took more memory than its recipe allows"),
    _said("sockets", "NCCL goes over TCP instead of the fabric", SLOW),
    _said("interface", "NCCL or gloo is told an interface that is not there"),
    _said("eager", "CUDA graphs are off, which halves the speed", SLOW),
    Scene(SMI, _smi("hot"), machine("the GPU holds its clock down")),
    Scene(
        SMI,
        _smi("mismatch"),
        machine("driver and its library are of two versions"),
        ("--data", "gpu_required=True"),
    ),
    Scene(
        KERNEL,
        _kernel("NVRM: Xid (PCI:000f:01:00): 31, pid=77, name=llama-server"),
        machine("the GPU's driver failed"),
    ),
    Scene(
        KERNEL,
        _kernel("Out of memory: Killed process 3248 (llama-server) total-vm:66000000kB"),
        machine("the machine ran out of memory"),
    ),
)
