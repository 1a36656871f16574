"""Dockerfiles: instructions with continuation, ENV, and what CMD and ENTRYPOINT start.

Rules: the Dockerfile reference ("Format", "Shell and exec form"). Heredocs are not followed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from sparkwright.lint.model import Assignment, At, How, Launch, Word
from sparkwright.lint.parse import launches, script, words
from sparkwright.lint.parse.launches import Around
from sparkwright.lint.text import UNKNOWN, Text

_INSTRUCTION: Final = re.compile(r"\s*([A-Za-z]+)\s+")
_ITEM: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
_ENV: Final = re.compile(r"([A-Za-z_]\w*)=")


@dataclass(frozen=True)
class Instruction:
    """One instruction: name in capitals, the rest with its places."""

    name: str
    rest: Text
    at: At


def instructions(source: Text) -> Iterator[Instruction]:
    """Instructions in order; comment lines vanish, also inside of a continuation."""
    joined, marks, offset = "", list[tuple[int, At]](), 0
    for line in source.text.split("\n"):
        here = source.at(offset)
        offset += len(line) + 1
        line = line.removesuffix("\r")
        if line.lstrip().startswith("#") or (joined and not line.strip()):
            continue
        marks.append((len(joined), here))
        if re.search(r"\\\s*$", line):
            joined += re.sub(r"\\\s*$", "", line)
            continue
        yield from _instruction(Text(joined + line, tuple(marks)))
        joined, marks = "", []
    if joined:
        yield from _instruction(Text(joined, tuple(marks)))


def _instruction(text: Text) -> Iterator[Instruction]:
    match = _INSTRUCTION.match(text.text)
    if match:
        rest = text.part(match.end(), len(text.text))
        yield Instruction(match[1].upper(), rest, text.at(match.start(1)))


def exec_form(rest: Text) -> tuple[Word, ...] | None:
    """The words of `["a", "b"]`; None when it is the shell form."""
    try:
        parsed = json.loads(rest.text)
    except ValueError:
        return None
    if not isinstance(parsed, list) or not all(isinstance(item, str) for item in parsed):
        return None
    spots = [match.start() + 1 for match in _ITEM.finditer(rest.text)]
    return tuple(
        words.word(item, item, Text(item, ((0, rest.at(spot)),)), 0)
        for item, spot in zip(parsed, spots, strict=False)
    )


def assignments(instruction: Instruction) -> Iterator[Assignment]:
    """`ENV A=1 B="x y"` and the old `ENV A 1`; values with variables are not told."""
    rest = instruction.rest
    if not _ENV.match(rest.text.lstrip()):
        name, _, value = rest.text.strip().partition(" ")
        yield Assignment(name, _known(value.strip()), rest.text, rest.at(0), How.IMAGE)
        return
    for word in words.split(rest):
        name, equals, value = word.shape.partition("=")
        if equals:
            yield Assignment(name, _known(value), word.raw, word.at, How.IMAGE)


def _known(value: str) -> str | None:
    return None if "$" in value or UNKNOWN in value else value


def read(source: Text, read_file: script.ReadFile) -> script.Script:
    """ENV, what RUN lines do, and what ENTRYPOINT and CMD start together."""
    env: list[Assignment] = []
    parts: list[script.Script] = []
    found: list[Launch] = []
    entry: list[Word] = []
    started, place = Around(), source.at(0)
    for step in instructions(source):
        if step.name == "ENV":
            env += assignments(step)
        given = exec_form(step.rest)
        around = Around(tuple(env), where=step.name)
        if step.name in ("RUN", "CMD", "ENTRYPOINT") and given is None:
            parts.append(script.read(step.rest, read_file, around))
            found += parts[-1].launches if step.name != "RUN" else ()
        elif given is not None and step.name in ("CMD", "ENTRYPOINT"):
            entry = [*given] if step.name == "ENTRYPOINT" else [*entry, *given]
            started, place = around, step.at
    found += launches.every(entry, place, started)
    commands = tuple(command for part in parts for command in part.commands)
    return script.Script(commands, tuple(env), tuple(found), (), ())
