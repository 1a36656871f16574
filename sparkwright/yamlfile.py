"""A YAML file as plain values: strict, bounded, and every complaint names a line or a place.

Booleans are the words true and false only (YAML 1.2): a bare `on`, `yes` or `none` stays text, so
`flash-attn: on` means what llama-server calls "on". `0600` stays text too, and nothing is a date.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import yaml

from sparkwright.errors import Problems

# A fleet of a thousand sparks is about 150 KB; more than this is not a file that people edit.
MAX_BYTES: Final = 1024 * 1024
# sparks.yaml needs 5 levels; the bound keeps "[[[[..." from exhausting Python's stack.
MAX_DEPTH: Final = 20

_TAG: Final = "tag:yaml.org,2002:"
# 18 digits fit 64 bits; a longer run of digits is a name or a commit, so it stays text.
_INT: Final = re.compile(r"^[-+]?(?:0|[1-9][0-9]{0,17}|0x[0-9a-fA-F]{1,15})$")
_FLOAT: Final = re.compile(r"^[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?$")
_WORDS: Final = {
    "bool": re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"),
    "null": re.compile(r"^(?:~|null|Null|NULL|)$"),
}


class _Loader(yaml.SafeLoader):
    """SafeLoader with YAML 1.2's core words instead of YAML 1.1's."""

    yaml_implicit_resolvers: dict[str | None, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012


_Loader.add_implicit_resolver(_TAG + "bool", _WORDS["bool"], list("tTfF"))
_Loader.add_implicit_resolver(_TAG + "null", _WORDS["null"], ["~", "n", "N", ""])
_Loader.add_implicit_resolver(_TAG + "int", _INT, list("-+0123456789"))
_Loader.add_implicit_resolver(_TAG + "float", _FLOAT, list("-+.0123456789"))


def read_map(
    path: Path, problems: Problems, label: str = "", missing: str = ""
) -> dict[str, object] | None:
    """The top map of a YAML file, or None when there is none (`problems` then says why).

    + label: how messages name the file; its name when empty
    + missing: what to do when the file is not there or empty
    """
    label = label or path.name
    before = len(problems)
    text = _text(path, label, problems, missing)
    node = _node(text, label, problems) if text is not None else None
    if node is None:
        if len(problems) == before:
            problems.add(label, "the file is empty", missing)
        return None
    value = _plain(node, label, "", problems)
    if isinstance(value, dict):
        return value
    kind = "a list" if isinstance(value, list) else "a single value"
    problems.add(label, f"the file must be a map (key: value), not {kind}", missing)
    return None


def load_map(path: Path, label: str = "", missing: str = "") -> dict[str, object]:
    """Like read_map; raises SparkwrightError with every problem of the file."""
    problems = Problems()
    values = read_map(path, problems, label, missing)
    problems.raise_if_any()
    return values or {}


def _text(path: Path, label: str, problems: Problems, missing: str) -> str | None:
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        problems.add(label, "no such file", missing)
        return None
    except OSError as error:
        reason = error.strerror or str(error)
        problems.add(label, f"cannot be read ({reason})", f"look at: ls -ld {path}")
        return None
    if len(raw) > MAX_BYTES:
        problems.add(label, f"is larger than {MAX_BYTES} bytes", "is this the right file?")
        return None
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        problems.add(f"{label}: line {line}", "is not UTF-8 text", "save the file as UTF-8")
        return None


def _node(text: str, label: str, problems: Problems) -> yaml.Node | None:
    """The file's only document; None when it is empty or broken (the latter is recorded)."""
    before = len(problems)
    try:
        _check_bounds(text, label, problems)
        return None if len(problems) > before else yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line if mark else 0
        _add_syntax(text, line, error.problem or str(error), label, problems)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, int(error.position)) + 1
        problems.add(f"{label}: line {line}", "holds a control character", "remove it")
    return None


def _check_bounds(text: str, label: str, problems: Problems) -> None:
    """Refuse aliases (they can blow up to any size) and bottomless nesting before composing."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        line = event.start_mark.line + 1 if event.start_mark else 0
        if isinstance(event, yaml.AliasEvent):
            hint = "write the value out, or put it under defaults"
            problems.add(f"{label}: line {line}", f"aliases (*{event.anchor}) are not used", hint)
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            what = f"is nested deeper than {MAX_DEPTH} levels"
            problems.add(f"{label}: line {line}", what, "is a bracket missing?")
            return


def _add_syntax(text: str, line: int, problem: str, label: str, problems: Problems) -> None:
    lines = text.splitlines()
    for at in (line, line - 1):
        if 0 <= at < len(lines) and re.match(r" *\t", lines[at]):
            what = "begins with a tab; YAML indents with spaces"
            problems.add(f"{label}: line {at + 1}", what, "replace the tab by spaces")
            return
    hint = "check the colons, quotes and indentation there and on the line above"
    problems.add(f"{label}: line {line + 1}", f"is not YAML ({problem})", hint)


def _plain(node: yaml.Node, label: str, place: str, problems: Problems) -> object:
    where = f"{label}: {place}" if place else label
    if isinstance(node, yaml.MappingNode) and node.tag == _TAG + "map":
        return _mapping(node, label, place, problems)
    if isinstance(node, yaml.SequenceNode) and node.tag == _TAG + "seq":
        items = enumerate(node.value)
        return [_plain(item, label, _join(place, str(at)), problems) for at, item in items]
    if isinstance(node, yaml.ScalarNode):
        try:
            return _scalar(node.tag.removeprefix(_TAG), node.value)
        except (KeyError, ValueError):
            problems.add(where, f'cannot read "{node.value}" as {node.tag}', "remove the tag")
            return None
    problems.add(where, f"the tag {node.tag} is not known here", "remove it")
    return None


def _scalar(kind: str, value: str) -> object:
    if kind == "null":
        return None
    if kind == "bool":
        return {"true": True, "false": False}[value.lower()]
    if kind == "int":
        return int(value, 0)
    return {"str": str, "float": float}[kind](value)


def _mapping(node: yaml.MappingNode, label: str, place: str, problems: Problems) -> object:
    where = f"{label}: {place}" if place else label
    lines: dict[str, int] = {}
    values: dict[str, object] = {}
    for key, item in node.value:
        line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode) or key.tag != _TAG + "str":
            shown = key.value if isinstance(key, yaml.ScalarNode) else "of this map"
            problems.add(where, f"the key {shown} (line {line}) is not text", "put it in quotes")
            continue
        name = key.value
        if name in lines:
            what = f"{name} is there twice (lines {lines[name]} and {line})"
            problems.add(where, what, "keep one")
            continue
        lines[name] = line
        values[name] = _plain(item, label, _join(place, name), problems)
    return values


def _join(place: str, part: str) -> str:
    return f"{place}/{part}" if place else part
