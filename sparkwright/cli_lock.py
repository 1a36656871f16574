"""`sparkwright lock`: ask upstream for what the lock file lacks, write it, say what moved."""

from __future__ import annotations

import argparse
import functools
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from sparkwright.artifacts import Lock, load_lock
from sparkwright.cli_lock_more import judge, packages
from sparkwright.errors import SparkwrightError
from sparkwright.fleet import load_fleet
from sparkwright.fleet_settings import settings_defaults
from sparkwright.hub import Hub
from sparkwright.lock import Wanted, resolve
from sparkwright.lock_download import measure
from sparkwright.lock_images import resolve_image
from sparkwright.lock_text import difference, dump, header_of
from sparkwright.paths import PROJECT
from sparkwright.recipes import load_recipes
from sparkwright.registry import Registry
from sparkwright.wheel_index import page
from sparkwright.wheel_resolve import Tools, resolve_wheels

DESCRIPTION = """Resolve branches of Hub repositories to commits and file lists, and fill in sizes
and hashes that the lock file lacks. What is known stays, unless --update is given. HF_TOKEN and
HF_ENDPOINT are respected."""
EPILOG = """exit code: 0 the lock is complete, 1 something could not be had (the rest is written),
2 a file of yours is wrong and nothing was asked
example: sparkwright lock --check --fleet sparks.yaml"""


def main(argv: Sequence[str]) -> int:
    """Run the command.

    Exit codes: 0 the lock is complete, 1 something could not be had (the rest is written),
    2 a file of the user is wrong and nothing was asked.
    """
    options = parser().parse_args(list(argv))
    try:
        path, directories = _places(options.file, options.fleet)
        if options.check or options.outdated:
            return judge(path, directories, options.fleet, options.outdated, options.debs)
        if options.debs:
            return packages(path, directories, options.fleet, options.debs)
        return run(path, directories, options.update, os.environ, options.wheels)
    except SparkwrightError as error:
        print(error, file=sys.stderr)
    except OSError as error:
        print(f"{error.filename}: {error.strerror}", file=sys.stderr)
    return 2


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(
        prog="sparkwright lock",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--file", type=Path, help="the lock file; default: the fleet's own, "
                        "without a fleet the project's artifacts.lock.yaml")  # fmt: skip
    made.add_argument("--fleet", type=Path, help="a sparks.yaml that names recipes and lock")
    made.add_argument("--update", action="store_true", help="ask again what branches mean")
    made.add_argument("--wheels", action="append", default=[], metavar="PROFILE",
                        help="resolve a vLLM wheel set anew (needs uv)")  # fmt: skip
    made.add_argument("--debs", action="append", default=[], metavar="SPARK",
                        help="resolve the Debian packages anew, for a bundle: with the sources of "
                        "this spark, or of a directory or .tgz of one (needs apt)")  # fmt: skip
    made.add_argument("--check", action="store_true",
                        help="does the lock cover the recipes? Exit 1 when not")  # fmt: skip
    made.add_argument("--outdated", action="store_true", help="is it what upstream has and what "
                        "runs? Exit 1 when not, 2 when that could not be asked")  # fmt: skip
    return made


def _places(file: Path | None, fleet: Path | None) -> tuple[Path, tuple[Path, ...]]:
    """The lock file and the recipe directories."""
    if fleet is None:
        path = file or PROJECT / "artifacts.lock.yaml"
        beside = path.absolute().parent / "recipes"
        return path, (beside if beside.is_dir() else PROJECT / "recipes",)
    found = load_fleet(fleet, settings_defaults(PROJECT / "group_data/all.py"))
    return file or found.lock, found.recipe_dirs


def run(
    path: Path,
    directories: Sequence[Path],
    update: bool,
    environment: Mapping[str, str],
    wheels: Sequence[str] = (),
) -> int:
    """Resolve one lock file in place and print what moved. Raises SparkwrightError, OSError.

    + directories: where recipes are; every repository that one names is resolved
    + environment: HF_TOKEN and HF_ENDPOINT are read from it
    + wheels: profiles whose wheel sets are resolved anew
    """
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    lock = load_lock(path)
    recipes = load_recipes(directories)
    wanted = [
        Wanted(item.weights.repo, item.weights.revision, item.weights.license)
        for _, item in sorted(recipes.items())
        if item.weights
    ]
    hub = Hub(environment.get("HF_ENDPOINT") or lock.hub, environment.get("HF_TOKEN") or None)
    images = functools.partial(resolve_image, registry=Registry(), update=update)
    measured = functools.partial(measure, tell=_tell)
    new, problems = resolve(lock, wanted, hub, measured, update, images)
    new = resolve_wheels(new, Tools(page, measured, _tell), problems, wheels, update)
    _write(path, dump(new, header_of(text)))
    _print_changes(path, lock, new)
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if len(problems) else 0


def _tell(text: str) -> None:
    print(text, flush=True)


def _write(path: Path, text: str) -> None:
    """Replace the lock file in one step: a cut must not leave half a lock."""
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


def _print_changes(path: Path, old: Lock, new: Lock) -> None:
    lines = difference(old, new)
    for line in lines:
        print(line)
    print(f"{path.name}: {len(lines)} changes" if lines else f"{path.name}: nothing moved")
