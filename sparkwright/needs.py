"""What a converge of these machines can need from outside, computed from the data the tasks use.

Pure but for the project's own files: recipes, lock, locked wheel sets, tasks/base.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from sparkwright.artifacts import Artifact
from sparkwright.errors import Problems
from sparkwright.image_needs import image_names
from sparkwright.needs_parts import (
    File,
    WheelSet,
    archive_of,
    file_of,
    hub_files,
    packages_of,
    pip_set,
    resolved,
    vllm_set,
)
from sparkwright.needs_target import Target, target_of
from sparkwright.site import lock_of, planned

T = TypeVar("T")
ALWAYS: Final = ("llama.cpp-source", "tiktoken-o200k_base")  # deploy.py: on every machine
CUDA_KEY: Final = "cuda-keyring"


@dataclass(frozen=True)
class Needs:
    """Everything for machines of one kind.

    + packages: Debian packages in apt's words: name, or name=version
    + debs: the artifact that lists the files of those packages; None when the lock has none
    """

    target: Target
    files: tuple[File, ...]
    sets: tuple[WheelSet, ...]
    packages: tuple[str, ...]
    debs: Artifact | None
    images: tuple[Artifact, ...]


def needs_of(machines: Mapping[str, Mapping[str, Any]], problems: Problems) -> Needs | None:
    """
    What these machines can need together; None when they are of several kinds, or of none.

    + machines: name -> its pyinfra data, defaults included
    + problems: gets what the lock lacks, each thing once
    """
    kinds: dict[Target, list[str]] = {}
    for name, data in machines.items():
        target = target_of(data, name, problems)
        if target:
            kinds.setdefault(target, []).append(name)
    if len(kinds) > 1:
        told = "; ".join(f"{kind}: {','.join(names)}" for kind, names in kinds.items())
        hint = "make one bundle for each kind, with --for"
        problems.add("sparks.yaml", f"machines of several kinds ({told})", hint)
    if len(kinds) != 1:
        return None
    (target,) = kinds
    own = Problems()
    found = [_of_machine(data, target, own) for data in machines.values()]
    for problem in dict.fromkeys(own):
        problems.add(problem.where, problem.what, problem.hint)
    return functools.reduce(_join, found)


def _join(one: Needs, two: Needs) -> Needs:
    return replace(
        one,
        files=_unique(one.files + two.files, lambda item: item.path),
        sets=_unique(one.sets + two.sets, lambda item: item.artifact),
        packages=tuple(sorted({*one.packages, *two.packages})),
        images=_unique(one.images + two.images, lambda item: item.name),
    )


def _unique(items: Iterable[T], name: Callable[[T], str]) -> tuple[T, ...]:
    found = {name(item): item for item in items}
    return tuple(found[key] for key in sorted(found))


def _of_machine(data: Mapping[str, Any], target: Target, problems: Problems) -> Needs:
    """Each part adds its own problems; what can be told is told."""
    lock = lock_of(data)
    served = planned(data, problems)
    profiles = sorted({item.profile for item in served if item.profile})
    names = [*ALWAYS, *([CUDA_KEY] if data["cuda_required"] else [])]
    plain = [item for name in names if (item := resolved(lock, name, problems))]
    images = [item for name in image_names(data) if (item := resolved(lock, name, problems))]
    weights = {item.weights.directory: item.weights for item in served if item.weights}
    files = [
        *map(file_of, plain),
        *[archive_of(item) for item in images if item.archive],
        *[file for item in weights.values() for file in hub_files(lock, item)],
    ]
    sets = [pip_set(lock, name, target, problems)
            for name in ("hub-client", *(["uv"] if profiles else []))]  # fmt: skip
    sets += [vllm_set(lock, name, problems) for name in profiles]
    return Needs(
        target,
        _unique(files, lambda item: item.path),
        _unique(filter(None, sets), lambda item: item.artifact),
        packages_of(data, lock, profiles, problems),
        lock.artifacts.get(target.debs),
        tuple(item for item in images if not item.archive),
    )
