"""What the lock says of a container image, checked: names, digests, versions, the archive."""

from __future__ import annotations

import re
from typing import Final

from sparkwright.artifacts import ImageArchive
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


IMAGE_CHECKS: Final[dict[str, Check]] = {
    "ref": _ref,
    "digest": _digest,
    "image_id": _digest,
    "tag": _tag,
    "platform": _platform,
    "cuda_min": _version,
    "cuda_min_driver": _version,
}
