"""Checks of docker before anything is changed, for machines with container recipes. Pure.

Docker is part of DGX OS: what is wrong with it is said, and never mended from here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from sparkwright.artifacts import Artifact, Lock
from sparkwright.docker_run import gpu_mode, gpu_probes, parsed
from sparkwright.errors import Problems
from sparkwright.image_needs import users
from sparkwright.images import RECORDS
from sparkwright.preflight_seen import Seen
from sparkwright.resources import Spec, State, quote
from sparkwright.site import Planned

GIB = 2**30
# `docker run --pull never` came with 20.10 (docs.docker.com, release notes of the engine).
DOCKER_MIN: Final = (20, 10)
# Room for an image, pulled and unpacked, as a multiple of its compressed size: our allowance, not
# measured with a CUDA image.
ROOM: Final = 4
ARCHES: Final = {"aarch64": "linux/arm64", "x86_64": "linux/amd64"}
LOOK: Final = "see: systemctl status docker"


def needed(items: Sequence[Planned], lock: Lock) -> dict[str, Artifact]:
    """Resolved images of a machine's recipes by name; the others are reported elsewhere."""
    known = {name: lock.artifacts.get(name) for name in users(items)}
    return {
        name: image
        for name, image in known.items()
        if image is not None and image.kind == "image" and image.resolved
    }


def probes(items: Sequence[Planned]) -> list[Spec]:
    """Questions, none for a machine without containers."""
    if not users(items):
        return []
    root = "$(timeout 20 docker info --format '{{.DockerRootDir}}')"
    free = f'df --output=avail --block-size=1 "{root}" | tail -n 1; ls {quote(RECORDS)}'
    return [
        *gpu_probes(),
        {"kind": "run", "argv": ["sh", "-c", free]},
        {"kind": "run", "argv": ["nvidia-smi", "--version"]},
    ]


def check(
    data: Mapping[str, Any],
    images: Mapping[str, Artifact],
    items: Sequence[Planned],
    seen: Seen,
    states: Sequence[State],
    problems: Problems,
) -> None:
    """
    Add what is wrong.

    + seen: what preflight asked every machine; states: answers to `probes`
    """
    if not states:
        return
    info, cdi, room, smi = states
    if not _engine(info, problems):
        return
    models = any(i.recipe.container and i.recipe.container.serves != "web" for i in items)
    if models and data["gpu_required"] and gpu_mode(data["container_gpus"], info, cdi) == "none":
        problems.add(
            "docker",
            "gives no GPU to containers: it has no runtime nvidia, and no CDI specification",
            "sudo nvidia-ctk runtime configure --runtime=docker, then restart docker",
        )
    for name, image in images.items():
        _image(name, image, seen.host["arch"], problems)
        _driver(name, image, seen.gpu, smi, problems)
    _room(images, room, problems)


def _engine(info: State, problems: Problems) -> bool:
    """Does an engine answer that is new enough?"""
    engine = parsed(info)
    version = re.match(r"(\d+)\.(\d+)", str(engine.get("ServerVersion", "")))
    said = " ".join([*map(str, engine.get("ServerErrors") or []), info.get("err", "")]).strip()
    if "No such file" in info.get("err", "") and info.get("rc") == 127:
        hint = "DGX OS ships docker-ce and the NVIDIA container toolkit; install them again"
        problems.add("docker", "is not installed", hint)
    elif info.get("rc") == 124:
        problems.add("docker", "does not answer within 20 s", LOOK)
    elif version is None:
        problems.add("docker", f"does not answer: {said[:200]}", f"start it, {LOOK}")
    elif (int(version[1]), int(version[2])) < DOCKER_MIN:
        wanted = ".".join(map(str, DOCKER_MIN))
        what = f"is {engine['ServerVersion']}, {wanted} or newer is needed"
        problems.add("docker", what, "use the DGX dashboard's update")
    else:
        return True
    return False


def _image(name: str, image: Artifact, arch: str, problems: Problems) -> None:
    if ARCHES.get(arch, arch) != image.platform:
        hint = "resolve it for this machine's platform: sparkwright lock"
        problems.add(f"image {name}", f"is for {image.platform}, the machine is {arch}", hint)


def _driver(name: str, image: Artifact, gpu: State, smi: State, problems: Problems) -> None:
    """A driver that is too old for the image's CUDA: refused before its gigabytes come."""
    hint = "use the DGX dashboard's update, or another image; sparkwright never changes it"
    rows = [[cell.strip() for cell in line.split(",")] for line in gpu.get("out", "").splitlines()]
    drivers = [row[2] for row in rows if len(row) == 3 and _numbers(row[2])]
    cuda = re.search(r"CUDA Version\s*:\s*([\d.]+)", smi.get("out", ""))
    if image.cuda_min and cuda and _numbers(cuda[1]) < _numbers(image.cuda_min):
        what = f"needs a driver that speaks CUDA {image.cuda_min}, this one speaks {cuda[1]}"
        problems.add(f"image {name}", what, hint)
    for driver in drivers:
        if image.cuda_min_driver and _numbers(driver) < _numbers(image.cuda_min_driver):
            what = f"needs driver {image.cuda_min_driver} or newer, this one is {driver}"
            problems.add(f"image {name}", what, hint)


def _numbers(version: str) -> tuple[int, ...]:
    found = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def _room(images: Mapping[str, Artifact], room: State, problems: Problems) -> None:
    first, *records = room.get("out", "").split() or ["?"]
    have = {name.removesuffix(".json") for name in records}
    missing = [i for i in images.values() if str(i.digest).removeprefix("sha256:") not in have]
    wanted = sum(ROOM * (image.size or 0) for image in missing)
    if first.isdigit() and int(first) < wanted:
        problems.add(
            "docker",
            f"{int(first) / GIB:.1f} GiB free for images, {wanted / GIB:.1f} GiB are needed",
            "remove images: docker image prune --all",
        )
