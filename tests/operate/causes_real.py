"""Causes that a lab machine can have for real: real llama-server, systemd, files and libraries."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from .patient import CACHE, FAKE, UNIT, Patient
from .scene import Act, Scene, dropin, here, machine, nothing, shell

ALL = "all of it"
SHARD = "$(find /srv/sparkwright/weights -name '*-00002-of-00004.gguf')"
HUB = "ExecStartPre=/opt/sparkwright/hub-client/current/bin/python /opt/fake/fake_vllm.py"
GATE = "ExecStartPre=+/usr/bin/python3 -I /opt/sparkwright/lib/memory_gate.py"
# ud2: the instruction that every x86 CPU refuses, as it would one that it does not know.
TRAP = "int main(void) { __builtin_trap(); }"
KEEP = f"cp -p {SHARD} /root/shard"
RESTORE = f"cp -p /root/shard {SHARD}"


def _storm(patient: Patient) -> None:
    """More starts than the unit may have in an hour, each ended by hand."""
    kill = f"systemctl start {UNIT} && systemctl kill -s KILL {UNIT}; sleep 0.3; "
    patient.root(f"systemctl stop {UNIT}; systemctl reset-failed {UNIT}; {kill * 4}", check=False)


@contextmanager
def storm(patient: Patient) -> Iterator[None]:
    """systemd gives up; nothing else is wrong."""
    _storm(patient)
    try:
        yield
    finally:
        patient.well()


@contextmanager
def stopped(patient: Patient) -> Iterator[None]:
    """Stopped by hand and left so; what doctor prints starts it again."""
    patient.root(f"systemctl stop {UNIT}")
    try:
        yield
    finally:
        patient.root(f"systemctl start {UNIT}")


@contextmanager
def refused(patient: Patient) -> Iterator[None]:
    """Nothing is done to it; but another computer is really refused."""
    try:
        socket.create_connection((patient.machine.address, 8080), timeout=10).close()
    except ConnectionRefusedError:
        yield
        return
    raise AssertionError("another computer was not refused")


@contextmanager
def thief(patient: Patient) -> Iterator[None]:
    """Another program listens where the unit would."""
    patient.root(f"systemctl stop {UNIT}; systemd-run -q --unit=thief "
                 "python3 -m http.server 8080 --bind 127.0.0.1; "
                 "until ss -Hltn | grep -q ':8080 '; do sleep 0.1; done")  # fmt: skip
    try:
        patient.restart()
        yield
    finally:
        patient.root("systemctl stop thief")
        patient.well()


@contextmanager
def illegal(patient: Patient) -> Iterator[None]:
    """A program with an instruction that this CPU has not."""
    patient.root(f"echo '{TRAP}' | gcc -x c -o /opt/fake/trap -")
    with patient.dropin("ExecStart=", "ExecStart=/opt/fake/trap"):
        yield


@contextmanager
def silent(patient: Patient) -> Iterator[None]:
    """A process that runs and answers nobody."""
    patient.root(f"systemctl kill -s STOP --kill-whom=main {UNIT}")
    try:
        yield
    finally:
        patient.root(f"systemctl kill -s CONT --kill-whom=main {UNIT}")


@contextmanager
def vocabulary(patient: Patient) -> Iterator[None]:
    """The vocabulary is gone, and something loads it as vLLM does."""
    patient.root("mv /srv/sparkwright/tiktoken /srv/sparkwright/aside")
    try:
        with patient.dropin(f"{FAKE} vocabulary"):
            yield
    finally:
        patient.root("mv /srv/sparkwright/aside /srv/sparkwright/tiktoken")


def _disk() -> Act:
    fill = f"ExecStartPre=/bin/sh -c 'head -c 200000 /dev/zero >{CACHE}/fill'"

    @contextmanager
    def act(patient: Patient) -> Iterator[None]:
        patient.root(f"mount -t tmpfs -o size=64k,mode=1777 full {CACHE}")
        try:
            with patient.dropin(fill):
                yield
        finally:
            patient.root(f"umount -l {CACHE}")
            patient.well()

    return act


SCENES: tuple[Scene, ...] = (
    Scene(
        ALL,
        shell(f"{KEEP}; truncate -s 100 {SHARD}", RESTORE),
        here("a file of the weights is damaged"),
    ),
    Scene(
        ALL,
        shell(f"{KEEP}; echo x >>{SHARD}", RESTORE, restart=False),
        here("the weights are not what was published"),
    ),
    Scene(ALL, thief, here("another process holds the port")),
    Scene(ALL, refused, here("it can be asked from the machine itself only"), ("refused",)),
    Scene("a real full file system; the program that writes is head", _disk(),
          here("the disk is full")),
    Scene("a real SIGILL, of a program of two words", illegal,
          here("the program was built for another CPU")),
    Scene("subprocess of the real Python, as FlashInfer calls ninja", dropin(f"{FAKE} ninja"),
          here("kernels cannot be compiled at the first request: ninja or nvcc is not found")),
    Scene("the real compiler, with the line that Triton gives it",
          dropin("ExecStartPre=/bin/sh -c 'echo \"#include <Python.h>\" | "
                 "gcc -x c -fsyntax-only -'"),
          here("kernels cannot be compiled: Python's headers are missing")),
    Scene(ALL, nothing, machine("no GPU is there, and one is expected"),
          ("--data", "gpu_required=True")),
    Scene("llama-server as built for CPUs, told to use a GPU",
          dropin("Environment=LLAMA_ARG_N_GPU_LAYERS=99"), here("the engine sees no GPU")),
    Scene(ALL, dropin(f"{GATE} --need-gib 5000 --wait-s 0"),
          here("less memory is free than the recipe needs")),
    Scene("the real openai_harmony, called by fake_vllm",
          vocabulary,
          here("the vocabulary of gpt-oss is missing or damaged")),
    Scene("the real huggingface_hub, called by fake_vllm",
          dropin("Environment=HF_HUB_OFFLINE=1", f"{HUB} hub"),
          here("a file is missing that the engine then looks for on the Hub")),
    Scene("the real huggingface_hub on a machine that has no way out, called by fake_vllm",
          dropin(f"{HUB} no-way-out"),
          here("it asks the Hub, and the machine has no way there")),
    Scene(ALL, dropin("Environment=ANYTHING=1"), here("it does not run as the fleet file says")),
    Scene(ALL, silent, here("it runs and does not answer")),
    Scene(ALL, stopped, here("somebody stopped it")),
    Scene(ALL, storm, here("it failed again and again, and systemd gave up")),
)  # fmt: skip
