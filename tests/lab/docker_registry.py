"""The part of a registry's HTTP API (distribution specification 1.1) that a pull uses."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path

from .replies import Reply, as_json

MANIFESTS = re.compile(r"/v2/(.+)/manifests/([^/]+)")
BLOBS = re.compile(r"/v2/(.+)/blobs/([^/]+)")


def answer(folders: Sequence[Path], path: str) -> Reply | None:
    """The answer to a GET or HEAD; None when the path is not a registry's.

    + folders: from `docker_image.make`, the first one wins
    """
    if not path.startswith("/v2/"):
        return None
    if path == "/v2/":
        return Reply(200, b"{}", {"Docker-Distribution-Api-Version": "registry/2.0"})
    if found := MANIFESTS.fullmatch(path):
        return _manifest(folders, *found.groups())
    if found := BLOBS.fullmatch(path):
        blob = _first(folders, f"blobs/{found[2]}")
        return Reply(200, blob, {"Content-Type": "application/octet-stream"}) if blob else _none()
    return _none("UNSUPPORTED")


def _manifest(folders: Sequence[Path], name: str, reference: str) -> Reply:
    path = _first(folders, f"manifests/{name}/{reference}")
    if path is None:
        return _none("MANIFEST_UNKNOWN")
    data = path.read_bytes()
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    kind = json.loads(data)["mediaType"]
    return Reply(200, path, {"Content-Type": kind, "Docker-Content-Digest": digest})


def _first(folders: Sequence[Path], name: str) -> Path | None:
    return next((folder / name for folder in folders if (folder / name).is_file()), None)


def _none(code: str = "BLOB_UNKNOWN") -> Reply:
    return as_json({"errors": [{"code": code, "message": "not here"}]}, 404)
