"""Container images made by hand, and one in which llama-server really runs.

An image is a layer, a configuration and a manifest (OCI image specification 1.1; Docker's schema
2 is the same with other media types). Both ways to a machine are made of the same bytes: files of
a registry, and the archive that `docker load` takes.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import platform
import tarfile
from dataclasses import dataclass
from pathlib import Path

LAYER = "application/vnd.docker.image.rootfs.diff.tar.gzip"
CONFIG = "application/vnd.docker.container.image.v1+json"
MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
INDEX = "application/vnd.oci.image.index.v1+json"
ARCH = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]


@dataclass(frozen=True)
class Image:
    """An image in a registry folder.

    + id: digest of its configuration; digest: of its manifest; size: of what a pull brings
    + archive: for `docker load`
    """

    id: str
    digest: str
    size: int
    archive: Path

    @property
    def platform(self) -> str:
        return f"linux/{ARCH}"


def sha256(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def layer(files: dict[str, bytes | Path], links: dict[str, str] | None = None) -> bytes:
    """A layer: path without leading slash -> content; every file is executable and root's.

    + links: path -> target
    """
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name in ("tmp", *sorted(_parents([*files, *(links or {})]))):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
            tar.addfile(entry)
        for name, content in sorted(files.items()):
            data = content if isinstance(content, bytes) else content.read_bytes()
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o755
            tar.addfile(entry, io.BytesIO(data))
        for name, target in sorted((links or {}).items()):
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            tar.addfile(entry)
    return out.getvalue()


def _parents(names: list[str]) -> set[str]:
    return {str(p) for name in names for p in Path(name).parents if str(p) not in (".", "tmp")}


def make(
    folder: Path, repository: str, tags: list[str], tar: bytes, env: list[str], arch: str = ARCH
) -> Image:
    """Put an image into a registry folder under tags, and write its archive beside.

    + tar: its one layer, from `layer`
    + arch: what it says of itself
    """
    packed = gzip.compress(tar, 1, mtime=0)
    config = _json(
        {
            "architecture": arch,
            "os": "linux",
            "config": {"Env": env},
            "rootfs": {"type": "layers", "diff_ids": [sha256(tar)]},
            "history": [{"created_by": "sparkwright lab"}],
        }
    )
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": {"mediaType": CONFIG, "digest": sha256(config), "size": len(config)},
            "layers": [{"mediaType": LAYER, "digest": sha256(packed), "size": len(packed)}],
        }
    )
    for blob in (packed, config):
        put(folder / "blobs" / sha256(blob), blob)
    place = folder / "manifests" / repository
    put(place / sha256(manifest), manifest)
    for tag in tags:
        put(place / tag, manifest)
    archive = folder / f"{sha256(config)[7:19]}.tar"
    archive.write_bytes(_archive(config, tar))
    size = len(manifest) + len(config) + len(packed)
    return Image(sha256(config), sha256(manifest), size, archive)


def put(path: Path, data: bytes) -> None:
    """Write a file with its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True).encode()


def _archive(config: bytes, tar: bytes) -> bytes:
    """`docker save`'s form without a tag: the image is known by its id alone when it is loaded."""
    name = sha256(config)[7:]
    entries = {
        "layer.tar": tar,
        f"{name}.json": config,
        "manifest.json": _json(
            [{"Config": f"{name}.json", "RepoTags": None, "Layers": ["layer.tar"]}]
        ),
    }
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for path, data in entries.items():
            entry = tarfile.TarInfo(path)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return out.getvalue()
