"""artifacts.lock.yaml as frozen values: every outside thing with its version, size and sha256.

    format: 1
    hub: https://huggingface.co
    artifacts:
      NAME: {kind: file|archive|apt|debs|wheels|wheel|image, …}
    snapshots:
      REPO@REVISION: {repo, revision, commit, license, files: [{path, size, sha256 | git_sha1}]}

A value that is not known is absent, never guessed. Such an artifact is not `resolved`, and
`sparkwright lock` asks upstream for what is missing. A snapshot without `files` waits for the
same command. `files` is the repository's whole listing; recipes choose from it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sparkwright.errors import Problem, SparkwrightError, nearest

FORMAT: Final = 1
RESOLVE: Final = "run: sparkwright lock"


@dataclass(frozen=True)
class HubFile:
    """One file of a repository: size in bytes; LFS files have a sha256, others git's sha1."""

    path: str
    size: int
    sha256: str | None = None
    git_sha1: str | None = None


@dataclass(frozen=True)
class Snapshot:
    """One commit of a repository; `revision` is what the recipe says, `commit` what it meant.

    + commit: 40 hex; None until it is resolved
    """

    repo: str
    revision: str
    commit: str | None = None
    license: str | None = None
    files: tuple[HubFile, ...] = ()

    @property
    def key(self) -> str:
        """The snapshot's name in the lock file."""
        return f"{self.repo}@{self.revision}"

    @property
    def resolved(self) -> bool:
        """Are the commit and its file list known?"""
        return bool(self.commit and self.files)


@dataclass(frozen=True)
class ImageArchive:
    """A container image as a file, for `docker load`."""

    url: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Artifact:
    """One outside thing. Which fields count depends on the kind; the others are None or empty.

    + kind: file, archive (a source tree), apt (packages of one repository), wheels, wheel, image
    + url: where upstream has it; size in bytes; sha256 64 hex
    + commit, build_number: of an archive
    + fingerprint, packages: of an apt repository: its key (40 hex), package -> exact version
    + listing: of debs: file with a paragraph for each package, relative to the lock; sha256 is its;
      status: what the machines have already, as dpkg writes it
    + requirements: of wheels: file with hashes, relative to the lock; sha256 is that file's
    + checks: of wheels: what its environment must fulfil (vllm_profiles.Checks, and `python`)
    + project: of a wheel: its distribution, when it is not the artifact's name
    + index: of a wheel: the package index that has it, asked when its url is not known
    + releases: of a wheel: a GitHub project's releases; `tag` is the one, a moving one
    + plain_name, sha1_name: names under which a file is laid down
    + ref, digest, platform: of a container image: its repository with the registry's name,
      the manifest of that platform ("sha256:…", "linux/arm64"); size is that of all its layers
    + tag: what the digest was asked for by; image_id: digest of the image's configuration
    + cuda_min: CUDA version that the driver must speak ("13.0"); cuda_min_driver: driver version
    + archive: the same image as a file; a machine then loads it and pulls nothing
    + source: where the pinned values were read, for people
    """

    name: str
    kind: str
    version: str | None = None
    url: str | None = None
    size: int | None = None
    sha256: str | None = None
    commit: str | None = None
    build_number: int | None = None
    fingerprint: str | None = None
    packages: Mapping[str, str] | None = None
    listing: str | None = None
    status: str | None = None
    requirements: str | None = None
    plain_name: str | None = None
    sha1_name: str | None = None
    ref: str | None = None
    tag: str | None = None
    digest: str | None = None
    platform: str | None = None
    image_id: str | None = None
    cuda_min: str | None = None
    cuda_min_driver: str | None = None
    archive: ImageArchive | None = None
    checks: Mapping[str, Any] | None = None
    project: str | None = None
    index: str | None = None
    releases: str | None = None
    source: str | None = None

    @property
    def missing(self) -> tuple[str, ...]:
        """Fields that this kind needs and that are not known yet."""
        return tuple(key for key in NEEDS[self.kind] if getattr(self, key) is None)

    @property
    def resolved(self) -> bool:
        """Is everything known that proves the content?"""
        return not self.missing


NEEDS: Final[Mapping[str, tuple[str, ...]]] = {
    "file": ("url", "size", "sha256"),
    "archive": ("version", "url", "size", "sha256", "commit", "build_number"),
    "apt": ("url", "fingerprint", "packages"),
    "debs": ("listing", "sha256"),
    "wheels": ("requirements", "sha256"),
    "wheel": ("version", "url", "size", "sha256"),
    "image": ("ref", "digest", "platform", "size"),
}


@dataclass(frozen=True)
class Lock:
    """The lock file. `snapshots` includes those that wait for their file list."""

    path: Path
    hub: str
    artifacts: Mapping[str, Artifact]
    snapshots: Mapping[str, Snapshot]

    def artifact(self, name: str) -> Artifact:
        """A resolved artifact.

        Raises SparkwrightError when there is none of the name, or something of it is not known.
        """
        found = self.artifacts.get(name)
        where = f"{self.path.name}: artifacts/{name}"
        if found is None:
            raise SparkwrightError(
                str(Problem(where, "is not in the lock", nearest(name, self.artifacts)))
            )
        if not found.resolved:
            what = f"{' and '.join(found.missing)} not known yet"
            raise SparkwrightError(str(Problem(where, what, RESOLVE)))
        return found

    def snapshot(self, repo: str, revision: str) -> Snapshot | None:
        """The resolved snapshot of a revision (a branch or a commit), or None."""
        found = self.snapshots.get(f"{repo}@{revision}")
        if found is None and re.fullmatch(r"[0-9a-f]{40}", revision):
            same = (
                item
                for item in self.snapshots.values()
                if item.repo == repo and item.commit == revision
            )
            found = next(same, None)
        return found if found is not None and found.resolved else None


def load_lock(path: Path) -> Lock:
    """Read and check a lock file.

    Raises SparkwrightError with all its problems at once.
    """
    # Imported late: the reader needs this module's classes.
    from sparkwright.lock_reader import read_lock

    return read_lock(path)
