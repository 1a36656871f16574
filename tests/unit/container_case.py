"""A machine with docker and container recipes, as tests of pure plans know it."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from sparkwright import engine_container, images
from sparkwright.artifacts import Artifact, ImageArchive
from sparkwright.engine_container import Image
from sparkwright.engines import Place
from sparkwright.recipe_types import Container
from sparkwright.resources import State
from sparkwright.site import Planned
from tests.unit.machine_case import HASH, PLACE, item

DIGEST = f"sha256:{'d1' * 32}"
ID = f"sha256:{'1d' * 32}"
IMAGE = Artifact(
    "lab-image", "image", ref="docker.io/lab/llama", tag="v1", digest=DIGEST, size=1000,
    platform="linux/arm64", image_id=ID,
)  # fmt: skip
ARCHIVE = ImageArchive("http://upstream/image.tar", 3000, HASH)
LLAMA = Container("lab-image", "openai", ("/app/llama-server",), 0, {}, "/health")
WEB = Container("lab-image", "web", (), 8080, {"data": "/app/data"}, "/health")
CONTAINER_PLACE = dataclasses.replace(PLACE, images={"lab-image": IMAGE}, gpus="auto")
FOUND = Image(images.named(IMAGE), account="998:997", gpus="gpus", memlock=True)


def served(container: Container = LLAMA, **changes: Any) -> Planned:
    """A container recipe on the machine."""
    recipe = {"engine": "container", "container": container, **changes.pop("recipe", {})}
    return item("tiny", recipe=recipe, **changes)


def argv(wanted: Planned, found: Image = FOUND, place: Place = CONTAINER_PLACE) -> tuple[str, ...]:
    """The whole `docker run` of a recipe."""
    return engine_container.launch(wanted, place, found).argv


def docker_info(**engine: Any) -> State:
    """What `docker info` prints."""
    return {"rc": 0, "out": json.dumps({"ServerVersion": "28.5.1", **engine}), "err": ""}


def image_states(
    record: dict[str, Any] | None = None, digest: bool = False, ids: tuple[str, ...] = ()
) -> list[State]:
    """Answers to `images.probes`.

    + digest: docker knows the image by its digest; ids: of all its images
    """
    kept: State = {"type": "missing"}
    if record is not None:
        kept = {"type": "file", "text": json.dumps(record)}
    return [
        kept,
        {"rc": 0 if digest else 1, "out": ID if digest else "", "err": ""},
        {"rc": 0, "out": "\n".join(ids), "err": ""},
    ]
