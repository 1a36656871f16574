"""Answers a shell that completes a command line: options, actions, recipes, sparks and groups."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from sparkwright.errors import SparkwrightError
from sparkwright.paths import PROJECT

ASKED: Final = "_ARGCOMPLETE"  # set by the shell's function, which argcomplete writes
SHELLS: Final = ("bash", "zsh", "fish")


def parser_of(name: str) -> argparse.ArgumentParser:
    """The options of one command; only its own module is loaded."""
    made: argparse.ArgumentParser = import_module(f"sparkwright.cli_{name}").parser()
    return made


def answer(commands: Mapping[str, str]) -> None:
    """Print what may come next, for the shell, and end the process.

    + commands: name -> what it does
    """
    import argcomplete

    words = os.environ.get("COMP_LINE", "").split()
    argcomplete.autocomplete(tree(commands, words[1] if len(words) > 1 else ""))


def tree(commands: Mapping[str, str], chosen: str) -> argparse.ArgumentParser:
    """All commands, with the options of the one that is typed: the others need not be loaded."""
    top = argparse.ArgumentParser(prog="sparkwright")
    below = top.add_subparsers(dest="command")
    for name, text in commands.items():
        own = [parser_of(name)] if name == chosen else []
        for action in [action for found in own for action in found._actions]:
            _complete(action)
        below.add_parser(name, help=text, parents=own, add_help=False)
    return top


def _complete(action: argparse.Action) -> None:
    """Say where words of an option come from, by what its help calls them."""
    if action.dest in ("limit", "exclude"):
        found: Callable[..., list[str]] = machines
    elif action.metavar == "RECIPE":
        found = recipes
    else:
        return
    action.completer = found  # type: ignore[attr-defined]  # argcomplete's own way to be told


def machines(**_: Any) -> list[str]:
    """Names of sparks and groups of the fleet file; none when it cannot be read."""
    try:
        sparks = _fleet().sparks
    except SparkwrightError:
        return []
    names = [name for spark in sparks for name in (spark.name, *spark.groups)]
    return list(dict.fromkeys(names))


def recipes(**_: Any) -> list[str]:
    """Names of recipes: of the fleet's directories, else the project's."""
    try:
        places = _fleet().recipe_dirs
    except SparkwrightError:
        places = (PROJECT / "recipes",)
    found = {path.stem for place in places for path in place.glob("*.yaml")}
    return sorted(name for name in found if not name.startswith("_"))


def _fleet() -> Any:
    from sparkwright.fleet import load_fleet
    from sparkwright.fleet_settings import settings_defaults

    path = Path(os.environ.get("SPARKS_FILE", PROJECT / "sparks.yaml")).expanduser()
    return load_fleet(path, settings_defaults(PROJECT / "group_data/all.py"))
