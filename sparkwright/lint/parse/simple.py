"""Formats of one line each: llama-server's presets, limits.conf, and code blocks of Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from sparkwright.lint.model import Engine, Key, Kind, Launch, Word
from sparkwright.lint.text import UNKNOWN, Text

_FENCE: Final = re.compile(r"( *)(`{3,}|~{3,})\s*([\w+-]*)")
_SHELLS: Final = frozenset({"bash", "sh", "shell", "console", "shell-session", "zsh"})
_UNITS: Final = frozenset({"ini", "systemd", "service", "conf", "unit", "toml", "text", ""})
_SECTION: Final = re.compile(r"^\[(Unit|Service)\]", re.M)
_PLACEHOLDER: Final = re.compile(r"<[A-Za-z][\w .:/-]*>")
_SERVICES: Final = re.compile(r"^services:", re.M)


def presets(source: Text) -> Iterator[Launch]:
    """Each section of a --models-preset file: its keys are long options without dashes."""
    name, words, place = "", list[Word](), source.at(0)
    for offset, line in _lines(source):
        text = line.strip()
        if text.startswith("["):
            if words:
                yield Launch(Engine.LLAMA, tuple(words), place, where=name)
            name, place = text.strip("[]"), source.at(offset)
            words = [Word("llama-server", "llama-server", place)]
        elif "=" in text and text[0] not in "#;" and words:
            key, _, value = text.partition("=")
            at = source.at(offset + line.index(text[0]))
            words.append(Word("--" + key.strip().lstrip("-"), key.strip(), at))
            if value.strip() not in ("", "true"):
                spot = source.at(offset + line.index("=") + 1)
                words.append(Word(value.strip(), value.strip(), spot))
    if words:
        yield Launch(Engine.LLAMA, tuple(words), place, where=name)


def limits(source: Text) -> Iterator[Key]:
    """`domain type item value` lines: path is "domain/type/item"."""
    for offset, line in _lines(source):
        parts = line.split("#")[0].split()
        if len(parts) == 4:
            yield Key("/".join(parts[:3]), parts[3], source.at(offset))


def blocks(source: Text) -> Iterator[tuple[Kind, Text]]:
    """Fenced code of a Markdown text that is a script, a unit or a compose file."""
    opened: tuple[str, str, int, int] | None = None  # (fence, language, begin, indent)
    for offset, line in _lines(source):
        match = _FENCE.match(line)
        if opened is None and match:
            opened = (match[2], match[3].lower(), offset + len(line) + 1, len(match[1]))
        elif opened is not None and match and match[2].startswith(opened[0]) and not match[3]:
            part = source.part(opened[2], offset)
            kind = _block_kind(opened[1], part.text)
            if kind is not None:
                script = kind is Kind.SCRIPT
                yield kind, _example(part) if script else dedent(part, opened[3])
            opened = None


def _block_kind(language: str, text: str) -> Kind | None:
    if language in _SHELLS:
        return Kind.SCRIPT
    if language in ("yaml", "yml"):
        return Kind.COMPOSE if _SERVICES.search(text) else None
    if language == "dockerfile":
        return Kind.DOCKERFILE
    return Kind.UNIT if language in _UNITS and _SECTION.search(text) else None


def _example(source: Text) -> Text:
    """`$ command` without its prompt, and `<name>` as something that is not told.

    Places stay right: as many characters stand there.
    """
    text = _PLACEHOLDER.sub(lambda match: UNKNOWN * len(match[0]), source.text)
    return _cut(Text(text, source.marks), re.compile(r"^\s*[$#] (?=[a-z./])"))


def dedent(source: Text, indent: int) -> Text:
    """A block inside of a list, without the list's indentation."""
    return _cut(source, re.compile(rf"^ {{1,{indent}}}")) if indent else source


def _cut(source: Text, pattern: re.Pattern[str]) -> Text:
    out, marks = "", []
    for offset, line in _lines(source):
        match = pattern.match(line)
        skip = match.end() if match else 0
        marks.append((len(out), source.at(offset + skip)))
        out += line[skip:] + "\n"
    return Text(out, tuple(marks) or ((0, source.at(0)),))


def _lines(source: Text) -> Iterator[tuple[int, str]]:
    offset = 0
    for line in source.text.split("\n"):
        yield offset, line.removesuffix("\r")
        offset += len(line) + 1
