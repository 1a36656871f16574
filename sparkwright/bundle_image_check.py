"""Whether an archive in a bundle is the image that the lock names, every byte of it."""

from __future__ import annotations

import hashlib
import tarfile
import threading
from pathlib import Path
from typing import IO

from sparkwright.artifacts import Artifact
from sparkwright.bundle_hash import CHUNK, Stopped
from sparkwright.bundle_images import Image, read_image, small_files
from sparkwright.errors import SparkwrightError
from sparkwright.site import need


def wrong_archive(path: Path, item: Artifact, stop: threading.Event) -> str:
    """What is wrong with an image's archive, or nothing; every byte is hashed. Raises OSError."""
    try:
        with tarfile.open(path, mode="r:") as tar:
            have = {entry.name: entry for entry in tar if entry.isfile()}
            image = _found(tar, have, item)
            for blob in image.blobs:
                entry = have.get(f"blobs/sha256/{blob.hex}")
                if entry is None or entry.size != blob.size:
                    return f"lacks layer {blob.hex[:12]}"
                if _hash(need(tar.extractfile(entry)), stop) != blob.hex:
                    return f"layer {blob.hex[:12]} is damaged"
            for name, content in small_files(image):
                entry = have.pop(name, None)
                if entry is None or need(tar.extractfile(entry)).read() != content:
                    return f"{name} is not as written"
    except (tarfile.TarError, EOFError, KeyError) as error:
        return f"is no archive of the image ({error})"
    except SparkwrightError as error:
        return str(error).partition(": ")[2]
    return ""


def _found(tar: tarfile.TarFile, have: dict[str, tarfile.TarInfo], item: Artifact) -> Image:
    entry = have[f"blobs/sha256/{need(item.digest).removeprefix('sha256:')}"]
    return read_image(item, need(tar.extractfile(entry)).read())


def _hash(file: IO[bytes], stop: threading.Event) -> str:
    told = hashlib.sha256()
    while chunk := file.read(CHUNK):
        if stop.is_set():
            raise Stopped
        told.update(chunk)
    return told.hexdigest()
