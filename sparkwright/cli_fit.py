"""`sparkwright fit`: will this recipe fit, for how many users, and what else may stay?"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from sparkwright import fit_llama, fit_text, fit_vllm
from sparkwright.artifacts import Lock, load_lock
from sparkwright.errors import SparkwrightError, nearest
from sparkwright.fit import SPARK_GIB, Fit, Machine, Part
from sparkwright.fleet import load_fleet
from sparkwright.fleet_settings import settings_defaults
from sparkwright.model_shape_files import Model, of_directory, of_recipe
from sparkwright.paths import PROJECT
from sparkwright.recipe_types import Recipe
from sparkwright.recipes import load_recipes
from sparkwright.roofline import Roof, read_per_token, roof

EPILOG = """exit code: 0 it fits, 1 it does not, 2 that cannot be said
example: sparkwright fit gpt-oss-120b --context 65536 --users 4"""


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(
        prog="sparkwright fit",
        description="Adds up weights, KV cache and what runs beside them. Contacts nothing.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("recipe", metavar="RECIPE")
    made.add_argument("--context", type=_positive, metavar="N",
                      help="tokens of each user; default: the recipe's")  # fmt: skip
    made.add_argument("--users", type=_positive, default=1, metavar="M",
                      help="requests of that length at once; default 1")  # fmt: skip
    made.add_argument("--memory-gib", type=float, default=SPARK_GIB, metavar="G",
                      help=f"MemTotal of the machine; default: a Spark's {SPARK_GIB}")  # fmt: skip
    made.add_argument("--beside", action="append", default=[], metavar="RECIPE",
                      help="a recipe that stays resident; may be given more than once")  # fmt: skip
    made.add_argument("--dir", type=Path, metavar="DIR",
                      help="the model's files, whose headers are read")  # fmt: skip
    made.add_argument("--fleet", type=Path, metavar="FILE",
                      help="a sparks.yaml that names recipes and lock")  # fmt: skip
    made.add_argument("--json", action="store_true", help="one object, docs/schemas/fit.json")
    return made


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is no number above 0")
    return int(text)


def main(argv: Sequence[str]) -> int:
    """Answer; see EPILOG for the exit codes."""
    options = parser().parse_args(list(argv))
    recipes, lock, reserve = _places(options.fleet)
    recipe = _recipe(recipes, options.recipe)
    if recipe.weights is None:
        print(f"{recipe.name}: holds no model; memory_gib {recipe.memory_gib:g} is all it claims")
        return 0
    beside = tuple(_claim(_recipe(recipes, name)) for name in options.beside)
    machine = Machine(options.memory_gib, reserve, beside)
    serves = "vllm" if recipe.runs_vllm else "llama.cpp"
    model = of_directory(options.dir) if options.dir else of_recipe(recipe.weights, lock, serves)
    engine = fit_vllm if recipe.runs_vllm else fit_llama
    found = engine.fit(recipe, model, machine, options.context or recipe.context, options.users)
    others = stay(recipes, recipe, found)
    top = _roof(model, found)
    if options.json:
        print(json.dumps(fit_text.as_json(recipe, machine, found, others, top), indent=1))
    else:
        print("\n".join(fit_text.lines(recipe, machine, found, others, top)))
    return 0 if found.fits else 1


def _places(fleet: Path | None) -> tuple[dict[str, Recipe], Lock | None, float]:
    """Recipes, lock and reserve: of a fleet where there is one, else the project's."""
    settings = settings_defaults(PROJECT / "group_data/all.py")
    path = fleet or Path(os.environ.get("SPARKS_FILE", PROJECT / "sparks.yaml")).expanduser()
    reserve = float(str(settings["memory_reserve_gib"]))
    if fleet is None and not path.exists():
        dirs: tuple[Path, ...] = (PROJECT / "recipes",)
        lock = PROJECT / "artifacts.lock.yaml"
    else:
        found = load_fleet(path, settings)
        dirs, lock = found.recipe_dirs, found.lock
    return load_recipes(dirs), load_lock(lock) if lock.exists() else None, reserve


def _recipe(recipes: Mapping[str, Recipe], name: str) -> Recipe:
    if name not in recipes:
        raise SparkwrightError(f"no recipe named {name}; {nearest(name, recipes)}")
    return recipes[name]


def _claim(recipe: Recipe) -> Part:
    return Part(recipe.name, recipe.memory_gib, "memory_gib of its recipe")


def stay(recipes: Mapping[str, Recipe], recipe: Recipe, found: Fit) -> list[Part]:
    """Other recipes that may stay resident beside it, each alone, the largest first.

    A converge adds up memory_gib, so what the recipe claims counts even where it needs less.
    """
    rest = [_claim(other) for name, other in recipes.items() if name != recipe.name]
    free = found.available_gib - max(found.needed_gib, recipe.memory_gib)
    fitting = [part for part in rest if part.gib <= free]
    return sorted(fitting, key=lambda part: (-part.gib, part.name))


def _roof(model: Model, found: Fit) -> Roof | None:
    """The decode roof, when the tensors are at hand."""
    if not model.tensors:
        return None
    return roof(read_per_token(model.tensors, model.shape), model.shape)
