"""A recipe: one served model and how, from recipes/<name>.yaml into frozen dataclasses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from sparkwright.errors import Problems, SparkwrightError
from sparkwright.recipe_acceptance import read_acceptance
from sparkwright.recipe_engines import ENGINES, read_engine
from sparkwright.recipe_rules import (
    env_problem,
    flag_problem,
    name_problem,
    pattern_problem,
    repo_problem,
    revision_problem,
    served_name_problem,
)
from sparkwright.recipe_sparks import check_spread, read_spread
from sparkwright.recipe_types import Acceptance, Container, Recipe, Weights
from sparkwright.vllm_rules import vllm_env_problem, vllm_flag_problem, vllm_limits
from sparkwright.yaml_reader import Reader, above_zero, between, not_blank, one_of
from sparkwright.yamlfile import read_map

__all__ = ["Acceptance", "Container", "Recipe", "Weights", "load_recipe", "load_recipes"]

# A vLLM start takes 8 to 15 minutes cold, llama.cpp one minute without and four with mmap
# (llama.cpp#27742; NVIDIA's playbooks): 20 minutes are never the reason to fail.
LOAD_TIMEOUT_S: Final = 1200
_HINT: Final = "see recipes/_example.yaml"


def load_recipe(path: Path) -> Recipe:
    """One recipe file; raises SparkwrightError with every problem in it."""
    problems = Problems()
    recipe = _read(path, problems)
    problems.raise_if_any()
    if recipe is None:  # cannot be: _read records a problem whenever it gives None
        raise SparkwrightError(f"{path}: cannot be loaded")
    return recipe


def load_recipes(dirs: Iterable[Path]) -> dict[str, Recipe]:
    """Every recipe of the directories by name, the first directory wins.

    Raises SparkwrightError with the problems of all files.
    """
    problems = Problems()
    found = read_recipes(dirs, problems)
    problems.raise_if_any()
    return {name: recipe for name, recipe in found.items() if recipe is not None}


def read_recipes(dirs: Iterable[Path], problems: Problems) -> dict[str, Recipe | None]:
    """Like load_recipes, but records problems; a broken recipe is there as None."""
    found: dict[str, Recipe | None] = {}
    for directory in dirs:
        for path in sorted(directory.iterdir()) if directory.is_dir() else []:
            if path.name.startswith(("_", ".")) or not path.is_file():
                continue
            if path.suffix == ".yml":
                label = f"{directory.name}/{path.name}"
                problems.add(label, "is not read", f"rename it to {path.stem}.yaml")
            elif path.suffix == ".yaml" and path.stem not in found:
                found[path.stem] = _read(path, problems)
    return found


def _read(path: Path, problems: Problems) -> Recipe | None:
    before = len(problems)
    label = f"{path.parent.name}/{path.name}"
    wrong = None if path.name.startswith("_") else name_problem(path.stem)
    if wrong:
        problems.add(label, *wrong)
    values = read_map(path, problems, label, _HINT)
    if values is None:
        return None
    recipe = _recipe(path.stem, Reader(label, "", values, problems))
    return recipe if len(problems) == before else None


def _recipe(name: str, top: Reader) -> Recipe:
    engine = top.take("engine", str, check=one_of(*ENGINES))
    profile, kernels, container = read_engine(top, engine)
    model = container is None or container.serves == "vllm" or top.has("weights")
    serves = container.serves if container else engine
    recipe = Recipe(
        name=name,
        engine=engine,
        description=top.take("description", str, check=not_blank),
        served_name=top.take("served_name", str, name, check=served_name_problem),
        port=top.take("port", int, check=between(1, 65535)),
        memory_gib=top.take("memory_gib", float, check=above_zero),
        context=_context(top, model),
        weights=_weights(top.section("weights")) if model else None,
        flags=_flags(top.section("flags"), serves),
        env=_env(top.section("env"), serves),
        load_timeout_s=top.take("load_timeout_s", int, LOAD_TIMEOUT_S, check=above_zero),
        acceptance=read_acceptance(top.section("acceptance"), serves),
        profile=profile,
        kernels=kernels,
        container=container,
        spread=read_spread(top, engine),
    )
    check_spread(top, recipe.spread, recipe.port, recipe.flags)
    top.finish({"name": "the file's name is the recipe's name; remove it"})
    if recipe.runs_vllm:
        _check_limits(top, recipe)
    return recipe


def _check_limits(top: Reader, recipe: Recipe) -> None:
    """Limits of every Spark; a share that was no flag at all was told of already."""
    told = len(recipe.flags) < len(top.section("flags").items())
    for place, what, hint in vllm_limits(recipe.flags, recipe.env, recipe.context):
        if place != "flags" or not told:
            top.fail(place, what, hint)


def _context(top: Reader, model: bool) -> int:
    """Only what holds a model has a context."""
    if model:
        return top.take("context", int, check=above_zero)
    if top.has("context"):
        top.fail("context", "says nothing without weights", "remove it")
    return top.take("context", int, 0)


def _weights(part: Reader) -> Weights:
    weights = Weights(
        repo=part.take("repo", str, check=repo_problem),
        revision=part.take("revision", str, check=revision_problem),
        license=part.take("license", str, check=not_blank),
        include=part.texts("include", check=pattern_problem),
        exclude=part.texts("exclude", check=pattern_problem),
        gated=part.take("gated", bool, False),
    )
    part.finish()
    return weights


def _flags(part: Reader, serves: str) -> Mapping[str, str | int | float | bool]:
    """
    + serves: the engine, or what a container of ours runs; its own rules are asked
    """
    rule = vllm_flag_problem if serves == "vllm" else flag_problem
    flags: dict[str, str | int | float | bool] = {}
    for name, value in part.items():
        wrong = rule(name, value)
        if wrong:
            part.fail(name, *wrong)
        elif isinstance(value, str | int | float):
            flags[name] = value
    return flags


def _env(part: Reader, serves: str) -> Mapping[str, str]:
    for name, value in part.items():
        wrong = env_problem(name, value)
        wrong = wrong or (vllm_env_problem(name, value) if serves == "vllm" else None)
        if wrong:
            part.fail(name, *wrong)
    return {name: str(value) for name, value in part.items()}
