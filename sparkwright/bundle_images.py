"""Container images in a bundle: blobs of a registry put into one archive, without docker.

The archive is an OCI image layout with docker's manifest.json beside it, as `docker save` writes
it since Docker 25, so both old and new engines load it. The same image gives the same bytes.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from sparkwright.artifacts import Artifact
from sparkwright.bundle_hash import Stopped, Want
from sparkwright.errors import Problem, SparkwrightError
from sparkwright.registry import _MANIFESTS as MANIFESTS
from sparkwright.registry import Registry
from sparkwright.site import need


@dataclass(frozen=True)
class Blob:
    """A part of an image; digest "sha256:…", size in bytes."""

    digest: str
    size: int

    @property
    def hex(self) -> str:
        """The digest's hex digits, which are its file's name."""
        return self.digest.removeprefix("sha256:")


@dataclass(frozen=True)
class Image:
    """An image whose parts are known.

    + manifest: its bytes, which the lock's digest proves; config, layers: what it names
    """

    artifact: Artifact
    manifest: bytes
    kind: str
    config: Blob
    layers: tuple[Blob, ...]

    @property
    def blobs(self) -> tuple[Blob, ...]:
        """Configuration and layers, each once."""
        return tuple({blob.digest: blob for blob in (self.config, *self.layers)}.values())

    @property
    def path(self) -> str:
        """Its archive in a bundle."""
        return f"images/{self.artifact.name}.tar"

    @property
    def proof(self) -> str:
        """What a stamp says that the archive was proved to be."""
        return f"sha256:{image_proof(self.artifact)}"


def image_proof(item: Artifact) -> str:
    """In place of a file's sha256: the archive's own follows from the image."""
    return f"image-{need(item.digest).removeprefix('sha256:')}"


class Blobs(Registry):
    """A registry that also says how a blob is asked for."""

    def image(self, item: Artifact) -> Image:
        """The parts of a locked image. Raises SparkwrightError."""
        ref, digest = need(item.ref), need(item.digest)
        return read_image(item, self._get(ref, f"manifests/{digest}", MANIFESTS)[0])

    def want(self, item: Artifact, blob: Blob) -> Want:
        """A blob as the downloader takes it; the token is that of the manifest."""
        ref = need(item.ref)
        token = self._tokens.get(ref)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        name = f"artifacts/{item.name}: layer {blob.hex[:12]}"
        return Want(
            name, self._url(ref, f"blobs/{blob.digest}"), blob.size, blob.hex, headers=headers
        )


def read_image(item: Artifact, text: bytes) -> Image:
    """An image's parts from its manifest. Raises SparkwrightError for another than the lock's."""
    have = f"sha256:{hashlib.sha256(text).hexdigest()}"
    if have != item.digest:
        raise _error(item, f"its manifest is {have}, the lock says {item.digest}")
    try:
        value = json.loads(text)
        config, *layers = [
            Blob(str(part["digest"]), int(part["size"]))
            for part in (value["config"], *value["layers"])
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise _error(item, f"{have} is no image's manifest") from error
    kind = str(value.get("mediaType") or MANIFESTS[0])
    return Image(item, text, kind, config, tuple(layers))


def _error(item: Artifact, what: str) -> SparkwrightError:
    return SparkwrightError(str(Problem(f"artifacts/{item.name}", what, "run: sparkwright lock")))


def assemble(image: Image, blobs: Path, out: IO[bytes], stop: threading.Event) -> str:
    """Write the archive; returns its sha256. Raises OSError, Stopped.

    + blobs: directory with a file for each blob, named by its hex digits
    """
    told = hashlib.sha256()
    with tarfile.open(
        fileobj=_Hashing(out, told, stop), mode="w|", format=tarfile.GNU_FORMAT
    ) as tar:  # type: ignore[call-overload]  # it needs write() alone
        for name, content in small_files(image):
            tar.addfile(_entry(name, len(content)), io.BytesIO(content))
        for blob in sorted(image.blobs, key=lambda blob: blob.hex):
            with (blobs / blob.hex).open("rb") as file:
                tar.addfile(_entry(f"blobs/sha256/{blob.hex}", blob.size), file)
    return told.hexdigest()


class _Hashing:
    def __init__(self, out: IO[bytes], told: Any, stop: threading.Event) -> None:
        self._out, self._told, self._stop = out, told, stop

    def write(self, data: bytes) -> int:
        if self._stop.is_set():
            raise Stopped
        self._told.update(data)
        return self._out.write(data)


def _entry(name: str, size: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = size, 0o644
    return entry


def small_files(image: Image) -> Iterator[tuple[str, bytes]]:
    """The small files of the archive, by name."""
    # No name and no tag: a machine's own tags must not move, it runs the image by its digest.
    digest = need(image.artifact.digest)
    described = {"mediaType": image.kind, "digest": digest, "size": len(image.manifest)}
    index = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [described],
    }
    docker = [
        {
            "Config": f"blobs/sha256/{image.config.hex}",
            "RepoTags": None,
            "Layers": [f"blobs/sha256/{blob.hex}" for blob in image.layers],
        }
    ]
    yield f"blobs/sha256/{digest.removeprefix('sha256:')}", image.manifest
    yield "index.json", json.dumps(index, sort_keys=True).encode()
    yield "manifest.json", json.dumps(docker, sort_keys=True).encode()
    yield "oci-layout", b'{"imageLayoutVersion":"1.0.0"}'
