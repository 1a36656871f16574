"""Every command that a program of ours tells people to run exists, with its options and actions."""

from __future__ import annotations

import argparse
import ast
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from sparkwright import cli_bundle, cli_weights
from sparkwright.cli import COMMANDS
from sparkwright.completion import parser_of
from sparkwright.paths import PROJECT

PLACES = ("sparkwright", "tasks", "files")
QUOTED = re.compile(r"`sparkwright ([^`\n]+)`")
PLAIN = re.compile(
    r"(?<![`\w/.-])sparkwright ((?:[a-z]+)(?: (?:--?[\w-]+(?:=\S+)?|[\w./<>{}-]+))*)"
)


def strings(path: Path) -> Iterator[str]:
    """Texts of a program, X for each value; a data file is one text."""
    if path.suffix == ".json":
        yield from re.findall(r'"((?:[^"\\]|\\.)*)"', path.read_text())
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.JoinedStr):
            parts = [str(v.value) if isinstance(v, ast.Constant) else "X" for v in node.values]
            yield "".join(parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@cache
def remedies() -> tuple[tuple[str, str], ...]:
    """(file, words after `sparkwright`), each once."""
    found: dict[tuple[str, str], None] = {}
    paths = [p for place in PLACES for p in (PROJECT / place).rglob("*") if p.is_file()]
    causes = PROJECT / "sparkwright/data/doctor-causes.json"
    for path in sorted(p for p in paths if p.suffix == ".py" or p == causes):
        for text in strings(path):
            words = [*QUOTED.findall(text)]
            words += [m for m in PLAIN.findall(text) if m.split()[0] in COMMANDS]
            found |= {(path.name, word): None for word in words}
    return tuple(found)


def test_there_are_many() -> None:
    assert len(remedies()) > 60


@pytest.mark.parametrize(("place", "words"), remedies(), ids=lambda value: value)
def test_every_remedy_exists(place: str, words: str) -> None:
    command, *rest = words.replace("\\", "").split()
    if command in ("X", "COMMAND"):  # it is named by a value
        return
    assert command in COMMANDS, (place, words)
    parser = parser_of(command)
    if command == "bundle" and rest[:1] == ["verify"]:
        parser = cli_bundle.parser(verifying=True)
    known = options(parser)
    for option in (word.split("=")[0] for word in rest if re.match("--?[a-z]", word)):
        assert option in known, (place, words)
    if command == "weights" and rest and re.fullmatch("[a-z]+", rest[0]):
        assert rest[0] in cli_weights.ACTIONS, (place, words)


def options(parser: argparse.ArgumentParser) -> set[str]:
    return {name for action in parser._actions for name in action.option_strings}


def test_causes_say_what_to_do() -> None:
    causes = json.loads((PROJECT / "sparkwright/data/doctor-causes.json").read_text())
    assert all(cause["fix"] for cause in causes)
