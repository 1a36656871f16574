"""One machine's plan, from its data: which recipes, which files, which names. Pure but for YAML."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from sparkwright import library, sources
from sparkwright.artifacts import Artifact, Lock, load_lock
from sparkwright.errors import Problems, SparkwrightError, nearest
from sparkwright.members import entries, misplaced
from sparkwright.model_files import no_model
from sparkwright.paths import PROJECT
from sparkwright.planned import Planned, Weights
from sparkwright.recipe_types import Recipe
from sparkwright.recipe_types import Weights as Source
from sparkwright.recipes import load_recipes
from sparkwright.selection import select

__all__ = ["Planned", "Weights", "artifact", "lock_of", "need", "planned", "recipes_of"]

T = TypeVar("T")
UNIT_DIR = "/etc/systemd/system"


@functools.cache
def _recipes(dirs: tuple[str, ...]) -> dict[str, Recipe]:
    return load_recipes([_place(name) for name in dirs])


@functools.cache
def _lock(path: str, source: sources.Source) -> Lock:
    return sources.placed(load_lock(_place(path)), source)


def _place(name: str) -> Path:
    path = Path(name).expanduser()
    return path if path.is_absolute() else PROJECT / path


def lock_of(data: Mapping[str, Any]) -> Lock:
    """The lock, with the addresses that the machine's source has. Raises SparkwrightError."""
    return _lock(str(data["lock_file"]), sources.source_of(data))


def upstream_lock(data: Mapping[str, Any]) -> Lock:
    """The lock as it is, whatever the source. Raises SparkwrightError."""
    return _lock(str(data["lock_file"]), sources.UPSTREAM)


def recipes_of(data: Mapping[str, Any]) -> dict[str, Recipe]:
    """The recipes that a machine's data can name. Raises SparkwrightError."""
    return _recipes(tuple(str(name) for name in data["recipe_dirs"]))


def artifact(data: Mapping[str, Any], name: str) -> Artifact:
    """An artifact of the lock. Raises SparkwrightError with the command that resolves it."""
    return lock_of(data).artifact(name)


def need(value: T | None) -> T:
    """A field that every resolved artifact of its kind has; absent is a defect of ours."""
    if value is None:
        raise SparkwrightError("artifacts.lock.yaml: a resolved artifact lacks a field of its kind")
    return value


def planned(data: Mapping[str, Any], problems: Problems | None = None) -> tuple[Planned, ...]:
    """
    The recipes of one machine with everything that the laptop knows about them, sorted by name.

    + data: the machine's pyinfra data
    + problems: gets what is wrong; without it the first call that finds something raises

    Raises SparkwrightError.
    """
    found = problems if problems is not None else Problems()
    recipes, lock = recipes_of(data), lock_of(data)
    out = []
    for place, entry, member in entries(data):
        name = entry["recipe"]
        if (recipe := recipes.get(name)) is None:
            found.add(place, f"no recipe named {name}", nearest(name, recipes))
            continue
        if wrong := misplaced(recipe, member):
            found.add(place, *wrong)
            continue
        weights = _weights(recipe, recipe.weights, lock, data, found) if recipe.weights else None
        if weights or not recipe.weights:
            out.append(replace(_planned(recipe, entry, data, weights), member=member))
    if problems is None:
        found.raise_if_any()
    return tuple(sorted(_merge(out), key=lambda item: item.recipe.name))


def _planned(
    recipe: Recipe, entry: Mapping[str, Any], data: Mapping[str, Any], weights: Weights | None
) -> Planned:
    return Planned(
        recipe=recipe,
        port=entry.get("port") or recipe.port,
        listen=entry.get("listen") or str(data["listen"]),
        api_key=entry.get("api_key") or str(data["api_key"]),
        state=entry.get("state") or "running",
        weights=weights,
        files=tuple(file.path for file in weights.files) if weights else (),
        profile=(recipe.profile or str(data["vllm_profile"])) if recipe.engine == "vllm" else None,
    )


def _weights(
    recipe: Recipe, wanted: Source, lock: Lock, data: Mapping[str, Any], problems: Problems
) -> Weights | None:
    snapshot = lock.snapshot(wanted.repo, wanted.revision)
    if snapshot is None:
        problems.add(
            f"{lock.path.name}: {wanted.repo}@{wanted.revision}",
            f"the lock holds no commit and file list for it, and recipe {recipe.name} needs them",
            "run `sparkwright lock` on a connected machine",
        )
        return None
    selection = select(snapshot.files, wanted.include, wanted.exclude)
    serves = recipe.container.serves if recipe.container else recipe.engine
    for text in selection.problems or no_model(serves, [file.path for file in selection.kept]):
        problems.add(f"recipes/{recipe.name}.yaml: weights", text)
    directory = f"{data['data_dir']}/weights/{snapshot.repo}/{need(snapshot.commit)[:12]}"
    return Weights(
        snapshot,
        directory,
        tuple(selection.kept),
        wanted.include,
        wanted.exclude,
        wanted.license,
        wanted.gated,
        library.places(data, snapshot.repo, str(snapshot.commit)),
    )


def _merge(items: Sequence[Planned]) -> list[Planned]:
    """Recipes that take different files of one snapshot share its directory: join their lists."""
    joined: dict[str, Weights] = {}
    for own in (item.weights for item in items if item.weights):
        have = joined.get(own.directory)
        joined[own.directory] = _join(have, own) if have else own
    return [replace(i, weights=joined[i.weights.directory]) if i.weights else i for i in items]


def _join(one: Weights, two: Weights) -> Weights:
    files = {file.path: file for file in (*one.files, *two.files)}
    return replace(
        one,
        files=tuple(files[path] for path in sorted(files)),
        include=tuple(dict.fromkeys((*one.include, *two.include))),
        exclude=tuple(x for x in one.exclude if x in two.exclude),
        gated=one.gated or two.gated,
    )
