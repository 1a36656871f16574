"""Container images of a machine: which ones it should have, and what is missing for them. Pure.

A record in /var/lib/sparkwright/images vouches for each: written last, after the image was there,
was the wanted one, and had been asked what it knows.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sparkwright import image_copies
from sparkwright.artifacts import Artifact
from sparkwright.digest import digest
from sparkwright.docker_run import DOCKER
from sparkwright.jobs import Job, JobPlan
from sparkwright.paths import LIB, machine_files
from sparkwright.resources import Spec, State
from sparkwright.site import need
from sparkwright.spread import Item

RECORDS = "/var/lib/sparkwright/images"


@dataclass(frozen=True)
class Wanted:
    """One image that recipes of a machine use.

    + asks: what is asked about itself: "vllm", "llama.cpp" (then by `program`) or ""
    + data_dir: below it an archive lies while it is loaded, and a copy while it is given
    + user: the service account, which gives copies to other machines
    + stall_s: no byte and no step for so long ends the pull
    + keep: images of ours that stay, those in use included
    + stay: records (file names) that this machine's recipes use
    """

    image: Artifact
    asks: str
    program: str
    data_dir: str
    user: str
    stall_s: int
    keep: int
    stay: tuple[str, ...]

    @property
    def named(self) -> str:
        """The image by its digest, as docker takes it."""
        return named(self.image)


def named(image: Artifact) -> str:
    """An image by its digest, as docker takes it."""
    return f"{image.ref}@{image.digest}"


def record(image: Artifact) -> str:
    """The file that vouches for an image on a machine."""
    return f"{RECORDS}/{need(image.digest).removeprefix('sha256:')}.json"


def probes(image: Artifact) -> list[Spec]:
    """Questions about one image: our record, and what docker has."""
    return [
        {"kind": "path", "path": record(image), "text": True},
        {"kind": "run", "argv": [DOCKER, "image", "inspect", "-f", "{{.Id}}", named(image)]},
        {"kind": "run", "argv": [DOCKER, "image", "ls", "--no-trunc", "--quiet"]},
    ]


@dataclass(frozen=True)
class Found:
    """What a machine says about an image.

    + reference: what docker runs it by: its digest, or the id of one that was loaded from a file
      (which has no digest); "absent" when it is not there
    + inputs: what the record vouches for; facts: what the image said of itself, as JSON text
    + known_id: docker's id of it when it was last seen
    """

    reference: str
    inputs: str = ""
    facts: str = ""
    known_id: str = ""


def found(image: Artifact, states: Sequence[State]) -> Found:
    """Read the answers to `probes`; a record without its image vouches for nothing."""
    kept = _read(states[0].get("text", ""))
    known = str(kept.get("id", "")) if kept.get("image") == named(image) else ""
    reference = "absent"
    if states[1].get("rc") == 0:
        reference = named(image)
    for name in (known, image.image_id):
        if reference == "absent" and name and name in states[2].get("out", "").split():
            reference = name
    facts = kept.get("facts")
    return Found(reference, str(kept.get("inputs", "")), json.dumps(facts) if facts else "", known)


def _read(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text or "{}")
    except ValueError:  # cut short or edited: it vouches for nothing
        return {}
    return value if isinstance(value, dict) else {}


def inputs(wanted: Wanted) -> dict[str, object]:
    """Everything that a record depends on."""
    image = wanted.image
    return {
        "image": named(image),
        "platform": image.platform,
        "image_id": image.image_id,
        "archive": image.archive.sha256 if image.archive else None,
        "asks": [wanted.asks, wanted.program],
        "programs": [text for path, text in machine_files() if _asking(path)],
    }


def _asking(path: str) -> bool:
    """Is it one of the programs that make a record?"""
    return path.startswith((f"{LIB}/introspect_", f"{LIB}/load_image", f"{LIB}/docker_api"))


def plan(wanted: Wanted, states: list[State]) -> JobPlan:
    """What has to happen so that the machine has the image and a record of it."""
    have, name = found(wanted.image, states), digest(inputs(wanted))
    if have.reference == "absent":
        drift = f"image {wanted.named}: not on the machine"
    elif have.inputs != name:
        drift = f"image {wanted.named}: {record(wanted.image)} does not vouch for it"
    else:
        return JobPlan(item=item_of(wanted))
    held = have.reference != "absent"
    return JobPlan((drift,), _job(wanted, name, have.known_id), item=item_of(wanted), held=held)


def item_of(wanted: Wanted) -> Item | None:
    """What machines can copy.

    None without the id in the lock, by which a copy is proved, and where a bundle's file lies on
    the machine already.
    """
    image, copies = wanted.image, image_copies.place(wanted.data_dir)
    if image.image_id is None or (image.archive and image.archive.url.startswith("file:")):
        return None
    key = f"image-{digest({'image': wanted.named, 'id': image.image_id, 'place': copies})}"
    export = ("spread_image.py", wanted.named, image.image_id, record(image))
    return Item(key, f"image {image.ref}", f"{copies}/{key}/tree", export=export)


def _job(wanted: Wanted, name: str, known_id: str) -> Job:
    image, item = wanted.image, item_of(wanted)
    spec = {
        "image": wanted.named,
        "image_id": image.image_id,
        "known_id": known_id,
        "platform": image.platform,
        "size": image.size,
        "archive": vars(image.archive).copy() if image.archive else None,
        "work": f"{wanted.data_dir}/images",
        "copy": item.place if item else "",
        "user": wanted.user,
        "stall_s": wanted.stall_s,
        "asks": wanted.asks,
        "program": wanted.program,
        "keep": wanted.keep,
        "stay": list(wanted.stay),
    }
    return Job(
        label=f"image-{need(image.digest)[7:19]}",
        digest=name,
        stamp=record(image),
        program=(f"{LIB}/load_image.py",),
        spec=spec,
        properties=("Nice=5", "OOMScoreAdjust=500"),
    )
