"""The resolver: what a lock lacks, asked of upstream, and the lock file written. Never guesses.

What was resolved stays as it is; `update` asks again for the branches, and only then does a
commit move. A question that fails leaves its entry untouched and becomes a problem.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from sparkwright.artifacts import Artifact, HubFile, Lock, Snapshot
from sparkwright.errors import Problems, SparkwrightError
from sparkwright.hub import Head


@dataclass(frozen=True)
class Wanted:
    """A repository that a recipe names; the license is the recipe's word."""

    repo: str
    revision: str
    license: str | None = None


@dataclass(frozen=True)
class Measured:
    """What a download turned out to be: bytes, sha256, and the commit in a git archive."""

    size: int
    sha256: str
    commit: str | None = None


class HubApi(Protocol):
    """What the resolver asks of a Hub; `sparkwright.hub.Hub` is the real one."""

    def head(self, repo: str, revision: str) -> Head:
        """The commit of a revision."""

    def files(self, repo: str, commit: str) -> tuple[HubFile, ...]:
        """The listing of a commit."""


Measure = Callable[[str], Measured]
T = TypeVar("T")


def resolve(
    lock: Lock,
    wanted: Sequence[Wanted],
    hub: HubApi,
    measure: Measure,
    update: bool = False,
    images: Callable[[Artifact], Artifact] = lambda item: item,
) -> tuple[Lock, Problems]:
    """Fill in what is missing; returns the new lock and what could not be had.

    + measure: downloads a URL and measures it; raises SparkwrightError
    + update: ask again where a revision is a branch
    + images: completes an artifact of kind image (lock_images.py)
    """
    problems = Problems()
    artifacts = {
        name: _attempt(
            item,
            images
            if item.kind == "image"
            else lambda item: _artifact(item, lock.path.parent, measure),
            problems,
        )
        for name, item in lock.artifacts.items()
    }
    snapshots = dict(lock.snapshots)
    for want in wanted:
        first = Snapshot(want.repo, want.revision, license=want.license)
        snapshots.setdefault(first.key, first)
    for key, item in snapshots.items():
        if not item.resolved or (update and item.commit != item.revision):
            snapshots[key] = _attempt(item, lambda item: _snapshot(item, hub), problems)
    return dataclasses.replace(lock, artifacts=artifacts, snapshots=_known(snapshots)), problems


def _attempt(item: T, work: Callable[[T], T], problems: Problems) -> T:
    """The item after `work`, or as it was, with the failure recorded."""
    try:
        return work(item)
    except SparkwrightError as error:
        where, _, what = str(error).partition(": ")
        problems.add(where, what)
        return item


def _known(snapshots: dict[str, Snapshot]) -> dict[str, Snapshot]:
    """Without entries that say nothing: no commit, no files."""
    return {key: item for key, item in snapshots.items() if item.commit or item.files}


def _snapshot(item: Snapshot, hub: HubApi) -> Snapshot:
    # A pinned commit is asked for too: it may not exist, and the license comes with it.
    head = hub.head(item.repo, item.revision)
    if re.fullmatch(r"[0-9a-f]{40}", item.revision) and head.commit != item.revision:
        raise SparkwrightError(f"{item.key}: the Hub answered with another commit, {head.commit}")
    files = hub.files(item.repo, head.commit)
    return dataclasses.replace(
        item, commit=head.commit, license=head.license or item.license, files=files
    )


def _artifact(item: Artifact, base: Path, measure: Measure) -> Artifact:
    if item.kind == "wheels" and item.requirements:
        path = base / item.requirements
        made = path.with_suffix(".toml").exists() and not path.exists()  # by wheel_resolve.py
        return item if made else _wheels(item, path)
    if item.kind not in ("file", "archive", "wheel") or item.resolved or item.url is None:
        return item
    found = measure(item.url)
    where = f"artifacts/{item.name}"
    for key in ("size", "sha256", "commit"):
        told, seen = getattr(item, key), getattr(found, key)
        if told is not None and seen is not None and told != seen:
            raise SparkwrightError(
                f"{where}: {item.url} has {key} {seen}, the lock says {told}; "
                "find out why before you change the lock"
            )
    build = item.build_number
    if item.kind == "archive" and build is None:
        number = re.fullmatch(r"b([0-9]+)", item.version or "")
        build = int(number[1]) if number else None
    commit = item.commit or (found.commit if item.kind == "archive" else None)
    return dataclasses.replace(
        item, size=found.size, sha256=found.sha256, commit=commit, build_number=build
    )


def _wheels(item: Artifact, path: Path) -> Artifact:
    """The hash of the requirements file, which holds the hash of every wheel."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise SparkwrightError(f"artifacts/{item.name}: {path}: {error.strerror}") from error
    return dataclasses.replace(item, sha256=hashlib.sha256(content).hexdigest())
