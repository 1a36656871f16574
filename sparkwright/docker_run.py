"""The words of `docker run` for one served container, and how a machine's docker gives the GPU."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sparkwright.errors import SparkwrightError
from sparkwright.resources import Spec, State

DOCKER = "/usr/bin/docker"
CDI_DEVICE = "nvidia.com/gpu=all"
# vLLM's processes exchange tensors through shared memory, so docker's 64 MB are too few (vLLM's
# documentation, "Using Docker": --ipc=host or --shm-size). Its own size rather than the host's:
# what a killed engine leaves there goes with the container. 10 GB is the most that was of use on
# a Spark; 64 GB are half the machine (tonyd2wild#31). Only what is used takes memory.
SHM = "10g"


@dataclass(frozen=True)
class Run:
    """One container.

    + image: what docker runs it by; account: uid:gid
    + words: of the command inside, program first; empty for the image's own
    + network: address and port of the machine that lead to `port` inside; None: the machine's own
      network, where the server inside listens by itself
    + gpus: "cdi", "gpus" or "none"
    + read_only, writable: path on the machine -> path inside
    + shared_memory: do its processes exchange tensors?
    + memlock: may the machine's root lift that limit? (one in a container itself may not)
    """

    name: str
    image: str
    account: str
    words: Sequence[str]
    env: Mapping[str, str]
    network: str | None
    port: int
    gpus: str
    memory_gib: float
    read_only: Mapping[str, str]
    writable: Mapping[str, str]
    shared_memory: bool
    memlock: bool = True


def argv(run: Run) -> tuple[str, ...]:
    """The whole command. Raises SparkwrightError for a path that --mount cannot say."""
    words = [DOCKER, "run", "--rm", "--init", "--name", run.name, "--pull", "never"]
    words += ["--label", "sparkwright=1"]
    # The client is attached, so systemd's journal has every line; docker's own copy would be a
    # second log without a limit (docs.docker.com/engine/logging/configure).
    words += ["--log-driver", "none"]
    words += ["--network", "host"] if run.network is None else ["--publish", _published(run)]
    words += ["--shm-size", SHM] if run.shared_memory else []
    words += _rights(run)
    for paths, end in ((run.read_only, ",readonly"), (run.writable, "")):
        for path, inside in sorted(paths.items()):
            words += ["--mount", _mount(path, inside) + end]
    for name, value in sorted(run.env.items()):
        words += ["--env", f"{name}={value}"]
    program, *rest = run.words or ("",)
    words += ["--entrypoint", program] if program else []
    return (*words, run.image, *rest)


def _published(run: Run) -> str:
    return f"{run.network}:{run.port}/tcp"


def _rights(run: Run) -> list[str]:
    """User, limits and devices."""
    words = ["--user", run.account, "--cap-drop", "ALL"]
    words += ["--security-opt", "no-new-privileges"]
    # NVIDIA's advice for its framework images (docs.nvidia.com, "Running a container").
    words += ["--ulimit", "memlock=-1"] if run.memlock else []
    words += ["--ulimit", "stack=67108864"]
    # A container is in docker's control group, not in the unit's, so that MemoryMax= would bind
    # the client alone. As there, CUDA's memory escapes (minefield#57): this stops leaks only.
    words += ["--memory", f"{int(run.memory_gib * 1024)}m"]
    # The engine dies before sshd does.
    words += ["--oom-score-adj", "800"]
    if run.gpus == "cdi":
        return [*words, "--device", CDI_DEVICE]
    # "void": an image that asks for GPUs gets none from a default runtime that would give them.
    gpu = ["--gpus", "all"] if run.gpus == "gpus" else ["--env", "NVIDIA_VISIBLE_DEVICES=void"]
    return [*words, *gpu]


def _mount(path: str, inside: str) -> str:
    """Unlike --volume, --mount does not make a missing directory, owned by root."""
    if "," in path + inside or '"' in path + inside:
        raise SparkwrightError(f"{path}: docker cannot mount a path with a comma or a quote in it")
    return f"type=bind,source={path},target={inside}"


def gpu_probes() -> list[Spec]:
    """What docker's engine says of itself, and where CDI specifications lie."""
    # A socket that accepts and does not answer must not hold the run.
    info = ["timeout", "20", DOCKER, "info", "--format", "{{json .}}"]
    places = ["find", "/etc/cdi", "/var/run/cdi", "-name", "*nvidia*"]
    return [{"kind": "run", "argv": info}, {"kind": "run", "argv": places}]


def parsed(info: State) -> dict[str, Any]:
    """`docker info` as a map; empty when it did not answer."""
    try:
        value = json.loads(info.get("out", "") or "{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def gpu_mode(wanted: str, info: State, cdi: State) -> str:
    """How a container gets the GPU: "cdi", "gpus" or "none".

    + wanted: setting container_gpus; auto takes what NVIDIA's playbooks use (`--gpus`) where the
      runtime is registered, for the toolkit's own configuration then decides (1.19 takes CDI by
      itself, nvidia-container-toolkit#1910), else CDI where docker and a specification have it
    """
    if wanted != "auto":
        return wanted
    engine = parsed(info)
    if "nvidia" in (engine.get("Runtimes") or {}):
        return "gpus"
    devices = [device.get("ID") for device in engine.get("DiscoveredDevices") or []]
    files = cdi.get("out", "").split()
    # Docker 28.3 lists the devices; before that, it says where it looks if CDI is on at all.
    listed = CDI_DEVICE in devices
    dirs = tuple(f"{place.rstrip('/')}/" for place in engine.get("CDISpecDirs") or [])
    spec = any(path.startswith(dirs) for path in files)
    return "cdi" if listed or spec else "none"
