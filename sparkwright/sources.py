"""Where a machine gets each artifact: upstream, an intranet mirror, or a bundle that was pushed.

The one place that knows; tasks ask for an artifact by its name. A bundle's tree is the same on a
web server and on the machine, so a source is the address of its top: for `bundle` a file:// one.
"""

from __future__ import annotations

import functools
import hashlib
import json
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from sparkwright.artifacts import Artifact, ImageArchive, Lock
from sparkwright.errors import Problem, SparkwrightError

APT_FILE: Final = "/etc/apt/sparkwright-bundle.sources"  # apt reads it only when it is told to
TIMEOUT_S: Final = 20.0  # for one small file of an intranet server (our choice)


@dataclass(frozen=True)
class Source:
    """One place that has everything.

    + kind: upstream, mirror or bundle; top: address of the tree, "" for upstream
    + origin: the bundle's directory on the laptop, or the mirror's address; for messages as well
    """

    kind: str
    top: str = ""
    origin: str = ""

    @property
    def plain(self) -> bool:
        """Is it a plain tree of files, which answers no API?"""
        return bool(self.top)

    @property
    def directory(self) -> str:
        """Where the tree lies on the machine; "" when it does not."""
        return self.top.removeprefix("file://") if self.kind == "bundle" else ""

    def at(self, path: str) -> str:
        """The address of a file of the tree."""
        return f"{self.top}/{quote(path)}"

    def url(self, artifact: Artifact) -> str | None:
        """Where a file, archive, wheel or apt repository is."""
        from sparkwright.needs_parts import base_name  # it needs site.py, which needs this module

        if not self.plain or artifact.url is None:
            return artifact.url
        if artifact.kind == "apt":
            return self.at("apt")
        name = base_name(artifact.url)
        below = "wheels" if artifact.kind == "wheel" else f"files/{artifact.name}"
        return self.at(f"{below}/{name}")

    def hub(self, upstream: str) -> str:
        """The Hub's address, or that of a tree which has files at the same paths."""
        return self.at("hub") if self.plain else upstream

    def index(self) -> str | None:
        """A package index for pip and uv; None leaves it to the machine's own settings."""
        return self.at("simple/") if self.plain else None

    def only(self) -> str | None:
        """The sources file that apt alone may read; None: the machine's own."""
        return APT_FILE if self.plain else None

    def image(self, artifact: Artifact) -> ImageArchive | None:
        """A container image as a file; None: the registry has it."""
        if not self.plain:
            return artifact.archive
        path = f"images/{artifact.name}.tar"
        if artifact.archive:
            return replace(artifact.archive, url=self.at(path))
        size, sha256 = manifest_of(self).get(path, (artifact.size or 0, "not in the bundle"))
        return ImageArchive(self.at(path), size, sha256)


UPSTREAM: Final = Source("upstream")


def source_of(data: Mapping[str, Any]) -> Source:
    """The source of one machine, from its data."""
    kind = str(data.get("artifacts_from", "upstream"))
    if kind == "mirror":
        url = str(data["artifacts_url"]).rstrip("/")
        return Source(kind, url, url)
    if kind == "bundle":
        return Source(kind, f"file://{data['data_dir']}/bundle", str(data["artifacts_path"]))
    return UPSTREAM


def placed(lock: Lock, source: Source) -> Lock:
    """The lock with the addresses that the source has for everything. Raises SparkwrightError."""
    if not source.plain:
        return lock
    names = {name: _placed(item, source) for name, item in lock.artifacts.items()}
    return replace(lock, hub=source.hub(lock.hub), artifacts=names)


def _placed(item: Artifact, source: Source) -> Artifact:
    if item.kind == "image":
        return replace(item, archive=source.image(item)) if item.resolved else item
    return replace(item, url=source.url(item))


def weights_of(source: Source, repo: str, commit: str) -> str:
    """Directory on the machine that has a snapshot's files already; "" when there is none."""
    return f"{source.directory}/hub/{repo}/resolve/{commit}" if source.directory else ""


def weights_source(data: Mapping[str, Any], repo: str, commit: str) -> dict[str, Any]:
    """What the weights agent is told beside the endpoint; nothing for a real Hub."""
    source = source_of(data)
    held = weights_of(source, repo, commit)
    return {"plain": True, **({"held": held} if held else {})} if source.plain else {}


@functools.cache
def manifest_of(source: Source) -> Mapping[str, tuple[int, str]]:
    """Path -> (size in bytes, sha256) of a tree's manifest, read here. Raises SparkwrightError."""
    where = f"{source.origin}/MANIFEST.json"
    try:
        if source.kind == "bundle":
            text = Path(where).read_text(encoding="utf-8")
        else:
            with urllib.request.urlopen(where, timeout=TIMEOUT_S) as answer:  # noqa: S310 - sparks.yaml allows http and https alone
                text = answer.read().decode()
        return {f["path"]: (int(f["size"]), str(f["sha256"])) for f in json.loads(text)["files"]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        hint = "fill it with `sparkwright bundle`, or mend the server"
        what = f"cannot be read here ({error}), and images need their size and hash from it"
        raise SparkwrightError(str(Problem(where, what, hint))) from error


def lock_sha256(data: Mapping[str, Any]) -> str:
    """Of the fleet's lock file, which a bundle's manifest names. Raises SparkwrightError."""
    from sparkwright.site import upstream_lock  # it needs this module

    return hashlib.sha256(upstream_lock(data).path.read_bytes()).hexdigest()
