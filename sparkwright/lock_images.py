"""Container images in the lock: what is said of them, checked, and what a registry adds."""

from __future__ import annotations

import dataclasses
import re
from typing import Final, Protocol

from sparkwright.artifacts import Artifact, ImageArchive
from sparkwright.errors import SparkwrightError
from sparkwright.registry import Found
from sparkwright.yaml_reader import Check, Reader, Verdict, above_zero

LOCK: Final = "remove it, then run: sparkwright lock"
# Beside what artifacts.NEEDS asks of an image.
IMAGE_ALSO: Final = ("tag", "image_id", "cuda_min", "cuda_min_driver", "archive", "version")

# host[:port]/path, lower case, as the distribution project's reference grammar has it
# (github.com/distribution/reference, regexp.go); the host is required so that nothing is guessed.
_PART: Final = "[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_HOST: Final = r"(?:localhost|[a-z0-9-]+(?:\.[a-z0-9-]+)+)(?::[0-9]+)?|localhost:[0-9]+"


def _ref(value: str) -> Verdict:
    if re.fullmatch(rf"(?:{_HOST})(?:/{_PART})+", value):
        return None
    what = f'must be registry/repository without tag or digest, not "{value}"'
    return what, "write docker.io/vllm/vllm-openai, for example"


def _digest(value: str) -> Verdict:
    if re.fullmatch(r"sha256:[0-9a-f]{64}", value):
        return None
    return f'must be sha256: and 64 lower-case hex digits, not "{value}"', LOCK


def _tag(value: str) -> Verdict:
    if re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}", value):
        return None
    return f'"{value}" is no tag', ""


def _platform(value: str) -> Verdict:
    if re.fullmatch(r"linux/[a-z0-9]+", value):
        return None
    return f'must be linux/arm64 or the like, not "{value}"', ""


def _version(value: str) -> Verdict:
    if re.fullmatch(r"[0-9]+(\.[0-9]+)+", value):
        return None
    return f'must be a version such as 13.0 or 580.95.05, not "{value}"', "put it in quotes"


def _sha256(value: str) -> Verdict:
    ok = re.fullmatch(r"[0-9a-f]{64}", value)
    return None if ok else (f'must be 64 lower-case hex digits, not "{value}"', "")


def _url(value: str) -> Verdict:
    ok = re.fullmatch(r"https?://[^/\s@]+(/\S*)?", value)
    return None if ok else (f'must be an http(s) address without a password, not "{value}"', "")


def read_archive(part: Reader) -> ImageArchive:
    """The archive of an image."""
    archive = ImageArchive(
        url=part.take("url", str, check=_url),
        size=part.take("size", int, check=above_zero),
        sha256=part.take("sha256", str, check=_sha256),
    )
    part.finish()
    return archive


class ImageApi(Protocol):
    """What the resolver asks of a registry; `sparkwright.registry.Registry` is the real one."""

    def find(self, ref: str, tag: str, platform: str) -> Found:
        """What a tag or digest is for a platform."""


def resolve_image(item: Artifact, registry: ImageApi, update: bool) -> Artifact:
    """
    Ask what an image's tag is for its platform, where that is not known yet.

    + update: ask again although it is known: the tag may have moved

    Raises SparkwrightError, for another image than the lock says too.
    """
    again = update and item.tag is not None
    if not item.ref or not item.platform or (item.resolved and not again):
        return item
    name = item.tag if again else item.digest or item.tag
    if name is None:
        raise SparkwrightError(f"artifacts/{item.name}: has neither tag nor digest; add a tag")
    found = registry.find(item.ref, name, item.platform)
    moved = item.digest is not None and found.digest != item.digest
    if moved and not again:
        raise SparkwrightError(
            f"artifacts/{item.name}: {item.digest} is an index, {found.digest} is its image for "
            f"{item.platform}; write that one"
        )
    return dataclasses.replace(
        item,
        digest=found.digest,
        size=found.size,
        image_id=found.image_id,
        # What belonged to the image before it does not go on: what somebody knew of its driver,
        # and its file.
        cuda_min=found.cuda_min or (None if moved else item.cuda_min),
        archive=None if moved else item.archive,
        cuda_min_driver=None if moved else item.cuda_min_driver,
    )


IMAGE_CHECKS: Final[dict[str, Check]] = {
    "ref": _ref,
    "digest": _digest,
    "image_id": _digest,
    "tag": _tag,
    "platform": _platform,
    "cuda_min": _version,
    "cuda_min_driver": _version,
}
