"""MANIFEST.json and SHA256SUMS: what lies in a weights directory, for people and tools."""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Mapping

from weights_files import write_atomic, write_json
from weights_hash import Hashes
from weights_spec import MANIFEST, SUMS, Spec

FORMAT = 1


def write_manifest(spec: Spec, hashes: Mapping[str, Hashes]) -> str:
    """Write both files and return the manifest digest. Raises OSError.

    + hashes: path -> hashes of every wanted file

    The digest is 64 hex over repository, commit and every file's size and sha256, without the
    date: the same content fetched twice has the same digest and restarts nothing.
    """
    files = [
        {"path": file.path, "size": file.size, "sha256": hashes[file.path].sha256}
        for file in spec.files
    ]
    content = {"repo": spec.repo, "revision": spec.commit, "files": files}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()
    # Two spaces between hash and name: the format that `sha256sum --check` reads.
    lines = [f"{item['sha256']}  {item['path']}" for item in files]
    write_atomic(spec.dir / SUMS, "\n".join(lines) + "\n")
    manifest = {
        **spec.manifest,
        **content,
        "format": FORMAT,
        "digest": digest,
        "source": spec.endpoint,
        "fetched_at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "license": spec.license,
        "include": list(spec.include),
        "exclude": list(spec.exclude),
        "total_bytes": spec.total_bytes,
    }
    write_json(spec.dir / MANIFEST, manifest)
    return digest
