"""A recipe: one served model and how, from recipes/<name>.yaml into frozen dataclasses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sparkwright.errors import Problems, SparkwrightError
from sparkwright.recipe_rules import (
    env_problem,
    flag_problem,
    name_problem,
    pattern_problem,
    regex_problem,
    repo_problem,
    revision_problem,
    served_name_problem,
)
from sparkwright.yaml_reader import Reader, above_zero, between, not_blank, one_of
from sparkwright.yamlfile import read_map

ENGINES: Final = ("llama.cpp",)
# A vLLM start takes 8 to 15 minutes cold, llama.cpp one minute without and four with mmap
# (llama.cpp#27742; NVIDIA's playbooks): 20 minutes are never the reason to fail.
LOAD_TIMEOUT_S: Final = 1200
# Ours: room for a reasoning model's thoughts before a one-word answer.
MAX_TOKENS: Final = 1024
_HINT: Final = "see recipes/_example.yaml"


@dataclass(frozen=True)
class Weights:
    """Where model files come from, and which of them."""

    repo: str
    revision: str
    license: str
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    gated: bool


@dataclass(frozen=True)
class Acceptance:
    """The question asked after a start, and what must come back."""

    question: str
    expect: str
    max_tokens: int
    finish_reason: str
    log_must: tuple[str, ...]
    log_must_not: tuple[str, ...]


@dataclass(frozen=True)
class Recipe:
    """One served model and how.

    + memory_gib: everything it holds while serving, GiB
    + context: tokens over all slots together
    + flags: llama-server's long option names without dashes; True is a bare flag
    + load_timeout_s: seconds from start to the first 200 of /health
    """

    name: str
    engine: str
    description: str
    served_name: str
    port: int
    memory_gib: float
    context: int
    weights: Weights
    flags: Mapping[str, str | int | float | bool]
    env: Mapping[str, str]
    load_timeout_s: int
    acceptance: Acceptance


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
    recipe = Recipe(
        name=name,
        engine=top.take("engine", str, check=one_of(*ENGINES)),
        description=top.take("description", str, check=not_blank),
        served_name=top.take("served_name", str, name, check=served_name_problem),
        port=top.take("port", int, check=between(1, 65535)),
        memory_gib=top.take("memory_gib", float, check=above_zero),
        context=top.take("context", int, check=above_zero),
        weights=_weights(top.section("weights")),
        flags=_flags(top.section("flags")),
        env=_env(top.section("env")),
        load_timeout_s=top.take("load_timeout_s", int, LOAD_TIMEOUT_S, check=above_zero),
        acceptance=_acceptance(top.section("acceptance")),
    )
    top.finish({"name": "the file's name is the recipe's name; remove it"})
    return recipe


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


def _flags(part: Reader) -> Mapping[str, str | int | float | bool]:
    flags: dict[str, str | int | float | bool] = {}
    for name, value in part.items():
        wrong = flag_problem(name, value)
        if wrong:
            part.fail(name, *wrong)
        elif isinstance(value, str | int | float):
            flags[name] = value
    return flags


def _env(part: Reader) -> Mapping[str, str]:
    for name, value in part.items():
        wrong = env_problem(name, value)
        if wrong:
            part.fail(name, *wrong)
    return {name: str(value) for name, value in part.items()}


def _acceptance(part: Reader) -> Acceptance:
    acceptance = Acceptance(
        question=part.take("question", str, check=not_blank),
        expect=part.take("expect", str, check=not_blank),
        max_tokens=part.take("max_tokens", int, MAX_TOKENS, check=above_zero),
        finish_reason=part.take(
            "finish_reason", str, "stop", check=one_of("stop", "length", "tool_calls")
        ),
        log_must=part.texts("log_must", check=regex_problem),
        log_must_not=part.texts("log_must_not", check=regex_problem),
    )
    part.finish()
    return acceptance
