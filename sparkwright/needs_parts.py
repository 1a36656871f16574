"""Parts of a converge's needs: files, Hub files, wheel sets, packages of single artifacts."""

from __future__ import annotations

import ast
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit

from sparkwright.artifacts import Artifact, Lock
from sparkwright.errors import Problems, SparkwrightError
from sparkwright.lock_wheels import locked_text
from sparkwright.needs_target import Target
from sparkwright.paths import PROJECT
from sparkwright.site import Weights, need
from sparkwright.vllm_profiles import profile_of, requirements
from sparkwright.wheel_sets import inputs_of

CUDA: Final = "cuda-repo"


@dataclass(frozen=True)
class File:
    """One file that upstream has at a known address.

    + path: its place in a bundle; artifact: whose it is, for messages
    + size: bytes, None when nobody knows yet; one of sha256 and git_sha1 proves the content
    + hub: asked for with the user's Hub token
    """

    path: str
    artifact: str
    url: str
    size: int | None
    sha256: str | None = None
    git_sha1: str | None = None
    hub: bool = False


@dataclass(frozen=True)
class WheelSet:
    """Requirements with hashes; which files they mean is seen when an index is asked.

    + python: of the environment; text: as the machine installs it; sizes: sha256 -> bytes
    + closed: whether the wheels' own requirements are all in it (vLLM's sets override some)
    """

    artifact: str
    python: tuple[int, int]
    text: str
    sizes: Mapping[str, int]
    closed: bool = True


@functools.cache
def base_packages() -> tuple[str, ...]:
    """PACKAGES of tasks/base.py, read as text: importing a task would start pyinfra."""
    tree = ast.parse((PROJECT / "tasks/base.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "PACKAGES":
            return tuple(ast.literal_eval(node.value))
    raise SparkwrightError("tasks/base.py: names no PACKAGES; restore it")


def resolved(lock: Lock, name: str, problems: Problems) -> Artifact | None:
    """An artifact of the lock, or None with a problem."""
    try:
        return lock.artifact(name)
    except SparkwrightError as error:
        absorb(problems, error)
        return None


def absorb(problems: Problems, error: SparkwrightError) -> None:
    """An error's lines as problems that read the same."""
    for line in str(error).splitlines():
        where, _, what = line.partition(": ")
        problems.add(where, what)


def base_name(url: str) -> str:
    """The last part of an address, as a file name."""
    return unquote(urlsplit(url).path.rstrip("/").rsplit("/", 1)[-1]) or "file"


def file_of(item: Artifact) -> File:
    """An artifact of kind file or archive, below its own name."""
    url = need(item.url)
    path = f"files/{item.name}/{base_name(url)}"
    return File(path, f"artifacts/{item.name}", url, item.size, item.sha256)


def archive_of(item: Artifact) -> File:
    """An image's archive where upstream has it as a file."""
    found = need(item.archive)
    path = f"images/{item.name}.tar"
    return File(path, f"artifacts/{item.name}", found.url, found.size, found.sha256)


def hub_files(lock: Lock, weights: Weights) -> list[File]:
    """The files of one snapshot that the recipes keep, at the Hub's own address for a file."""
    snapshot = weights.snapshot
    below = f"{snapshot.repo}/resolve/{snapshot.commit}"
    return [
        File(
            f"hub/{below}/{file.path}",
            f"snapshots/{snapshot.key}",
            f"{lock.hub}/{below}/{quote(file.path)}",
            file.size,
            file.sha256,
            file.git_sha1,
            hub=True,
        )
        for file in weights.files
    ]


def pip_set(lock: Lock, name: str, target: Target, problems: Problems) -> WheelSet | None:
    """A small environment's wheels, for the machine's own Python."""
    item = resolved(lock, name, problems)
    try:
        text = locked_text(lock, item) if item else ""
    except SparkwrightError as error:
        absorb(problems, error)
        return None
    return WheelSet(name, target.python, text, {}) if item else None


def vllm_set(lock: Lock, profile: str, problems: Problems) -> WheelSet | None:
    """As tasks/vllm.py puts it together."""
    item = resolved(lock, profile_of(profile).artifact, problems)
    if item is None:
        return None
    found = profile_of(profile, item)
    wheels = [wheel for name in found.wheels if (wheel := resolved(lock, name, problems))]
    try:
        text = requirements(locked_text(lock, item), wheels)
    except SparkwrightError as error:
        absorb(problems, error)
        return None
    sizes = {need(wheel.sha256): need(wheel.size) for wheel in wheels}
    major, minor = (int(part) for part in found.python.split("."))
    closed = not found.checks.missing_ok and not _overrides(lock, item)
    return WheelSet(item.name, (major, minor), text, sizes, closed)


def _overrides(lock: Lock, item: Artifact) -> bool:
    """Whether the set is made against what its wheels say they want."""
    source = (lock.path.parent / need(item.requirements)).with_suffix(".toml")
    uv = inputs_of(source).get("tool", {}).get("uv", {}) if source.exists() else {}
    return bool(uv.get("override-dependencies"))


def packages_of(
    data: Mapping[str, Any], lock: Lock, profiles: Sequence[str], problems: Problems
) -> tuple[str, ...]:
    """Debian packages of a machine: base, extra, vLLM profiles, CUDA with exact versions."""
    found = {*base_packages(), *data["packages_extra"]}
    for name in profiles:
        item = lock.artifacts.get(profile_of(name).artifact)
        found.update(profile_of(name, item).packages)
    repository = resolved(lock, CUDA, problems) if data["cuda_required"] else None
    pinned = (repository.packages or {}) if repository else {}
    return tuple(sorted({*found, *(f"{name}={version}" for name, version in pinned.items())}))
