"""Which container images the recipes of one machine need. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sparkwright.artifacts import Artifact, Lock
from sparkwright.errors import SparkwrightError
from sparkwright.images import Wanted, record
from sparkwright.site import Planned, recipes_of


def users(items: Sequence[Planned]) -> dict[str, list[Planned]]:
    """Names of image artifacts with the recipes that use them, in the order of the names."""
    found: dict[str, list[Planned]] = {}
    for item in items:
        if item.recipe.container:
            found.setdefault(item.recipe.container.image, []).append(item)
    return dict(sorted(found.items()))


def artifacts(items: Sequence[Planned], lock: Lock) -> dict[str, Artifact]:
    """The image artifacts of these recipes by name.

    Raises SparkwrightError for one that the lock does not resolve or that is no image.
    """
    found = {name: lock.artifact(name) for name in users(items)}
    for name, item in found.items():
        if item.kind != "image":
            where = f"{lock.path.name}: artifacts/{name}"
            raise SparkwrightError(f"{where}: is of kind {item.kind}; a container needs an image")
    return found


def image_names(data: Mapping[str, Any]) -> list[str]:
    """The image artifacts that a machine's data asks for, known to the lock or not."""
    recipes = recipes_of(data)
    entries = [item if isinstance(item, str) else item["recipe"] for item in data["serve"]]
    served = [recipes[name].container for name in entries if name in recipes]
    return sorted({container.image for container in served if container})


def asks(items: Sequence[Planned]) -> tuple[str, str]:
    """What an image is asked about itself, and the program in it that answers."""
    for container in (item.recipe.container for item in items):
        if container and container.serves == "vllm":
            return "vllm", "python3"
        program = container.command[:1] if container and container.serves == "openai" else ()
        if program and program[0].endswith("llama-server"):
            return "llama.cpp", program[0]
    return "", ""


def wanted(
    items: Sequence[Planned], found: Mapping[str, Artifact], data: Mapping[str, Any]
) -> list[Wanted]:
    """
    The images of one machine.

    + found: the artifacts by name; data: the machine's pyinfra data
    """
    stay = tuple(sorted(record(image).rsplit("/", 1)[1] for image in found.values()))
    return [
        Wanted(
            image=found[name],
            asks=asks(using)[0],
            program=asks(using)[1],
            data_dir=data["data_dir"],
            user=data["service_user"],
            stall_s=data["weights_stall_s"],
            keep=data["vllm_keep"],
            stay=stay,
        )
        for name, using in users(items).items()
    ]
