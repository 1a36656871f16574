"""KEY=value files, as systemd, docker and compose each read them: three different formats.

systemd: src/basic/env-file.c. Docker: cli/opts/envfile.go (no quotes, no comments after values).
Compose: compose-go/dotenv (quotes, `${X}`, and ` #` begins a comment).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from sparkwright.lint.model import Assignment, At, How
from sparkwright.lint.text import Text

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_SPACE: Final = " \t\n\r"
_NEED_ESCAPE: Final = '"\\`$'


def valid_name(name: str) -> bool:
    """Whether systemd takes this as a variable's name (systemd.exec(5))."""
    return _NAME.match(name) is not None


def systemd_items(source: Text, how: How = How.ENVFILE) -> Iterator[Assignment]:
    """Assignments of an EnvironmentFile; bad names (`export X`) are given as they stand."""
    at, text = 0, source.text
    while at < len(text):
        if text[at] in _SPACE:
            at += 1
        elif text[at] in "#;":
            at = _line_end(text, at)
        else:
            end = min(text.find(c, at) if c in text[at:] else len(text) for c in "\n=")
            if end >= len(text) or text[end] == "\n":
                at = end + 1
                continue
            value, stop = _value(text, end + 1)
            raw = text[at:stop].rstrip("\r\n")
            yield Assignment(text[at:end].rstrip(_SPACE), value, raw, source.at(at), how)
            at = stop


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end + 1


def _value(text: str, at: int) -> tuple[str, int]:
    """(value, offset behind it): the state machine of parse_env_file_internal."""
    out: list[str] = []
    state, kept = "pre", 0  # kept: length that trailing spaces do not shorten
    while at < len(text):
        char = text[at]
        at += 1
        if state == "single" or state == "double":
            at, state = _quoted(text, at, char, state, out)
            kept = len(out)
        elif char in "\n\r":
            break
        elif char == "\\":
            if at < len(text):
                if text[at] not in "\n\r":
                    out.append(text[at])
                at += 1
            state, kept = "value", len(out)
        elif state == "pre" and char in "\"'":
            state = "single" if char == "'" else "double"
        elif state == "value" or char not in _SPACE:
            out.append(char)
            state = "value"
            kept = kept if char in _SPACE else len(out)
    return "".join(out[:kept]), at


def _quoted(text: str, at: int, char: str, state: str, out: list[str]) -> tuple[int, str]:
    if char == ("'" if state == "single" else '"'):
        return at, "pre"
    if state == "double" and char == "\\" and at < len(text):
        after = text[at]
        if after in _NEED_ESCAPE:
            out.append(after)
        elif after != "\n":
            out.extend(("\\", after))
        return at + 1, state
    out.append(char)
    return at, state


def docker_items(source: Text) -> Iterator[Assignment]:
    """Assignments of docker's --env-file: a whole line each, quotes and comments included."""
    for at, line in _lines(source):
        text = line.lstrip(" \t")
        if text and not text.startswith("#"):
            name, equals, value = text.partition("=")
            place = At(at.file, at.line, at.column + len(line) - len(text))
            yield Assignment(name, value if equals else None, text, place, How.DOCKER_FILE)


def compose_items(source: Text) -> Iterator[Assignment]:
    """Assignments of compose's env_file; values with "$" in them are not told."""
    for at, line in _lines(source):
        text = line.strip().removeprefix("export ").strip()
        name, equals, value = text.partition("=")
        if not text or text.startswith("#") or not equals:
            continue
        place = At(at.file, at.line, at.column + line.find(text[0]))
        yield Assignment(name.strip(), _dotenv(value.strip()), text, place, How.COMPOSE_FILE)


def _dotenv(value: str) -> str | None:
    for quote in ("'", '"'):
        if value.startswith(quote) and (end := value.find(quote, 1)) > 0:
            inner = value[1:end]
            return None if quote == '"' and ("$" in inner or "\\" in inner) else inner
    value = re.split(r"\s+#", value)[0]
    return None if "$" in value else value


def _lines(source: Text) -> Iterator[tuple[At, str]]:
    offset = 0
    for line in source.text.split("\n"):
        yield source.at(offset), line.removesuffix("\r")
        offset += len(line) + 1
