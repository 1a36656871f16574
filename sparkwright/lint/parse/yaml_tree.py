"""YAML with the place of every value: bounded, not recursive, anchors followed a limited number.

Events come from libyaml; nodes are built here because PyYAML's own composer recurses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Protocol

import yaml

from sparkwright.lint.model import At
from sparkwright.lint.text import Text

# A recipe has 60 values, a large compose file a thousand; aliases are what makes more of them.
MAX_KEYS: Final = 20_000
MAX_DEPTH: Final = 60
_TAGS: Final = {
    "int": re.compile(r"[-+]?[0-9]+\Z|0x[0-9a-fA-F]+\Z"),
    "float": re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z"),
    "bool": re.compile(r"(true|True|TRUE|false|False|FALSE)\Z"),
    "null": re.compile(r"(~|null|Null|NULL|)\Z"),
}
_Loader: Final[type] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class YamlTrouble(Exception):
    """It is not YAML, or more of it than anybody reads."""

    def __init__(self, at: At, what: str) -> None:
        """
        + what: the reason in words
        """
        super().__init__(what)
        self.at, self.what = at, what


@dataclass
class Node:
    """A value: kind is "map", "list" or "scalar".

    + items: (key, value) of a map; a list has its values under None
    + end: 0-based line on which it ends
    """

    kind: str
    at: At
    value: str = ""
    tag: str = "str"
    items: list[tuple[Node | None, Node]] = field(default_factory=list)
    end: int = 0
    style: str = ""

    def get(self, name: str) -> Node | None:
        """A map's value; those merged in with `<<` count when it has none of its own."""
        own = [v for k, v in self.items if k is not None and k.value == name]
        if own or self.kind != "map":
            return own[-1] if own else None
        merged = [v for k, v in self.items if k is not None and k.value == "<<"]
        for node in merged:
            for part in [node] if node.kind == "map" else [v for _, v in node.items]:
                own = [v for k, v in part.items if k is not None and k.value == name]
                if own:
                    return own[-1]
        return None

    def pairs(self) -> Iterator[tuple[Node, Node]]:
        """A map's keys and values, merged ones first."""
        for key, value in self.items:
            if key is not None and key.value == "<<":
                for part in [value] if value.kind == "map" else [v for _, v in value.items]:
                    yield from ((k, v) for k, v in part.items if k is not None)
        yield from ((k, v) for k, v in self.items if k is not None and k.value != "<<")

    def scalar(self, name: str) -> str | None:
        """A map's value as text; None when it is absent, null or no scalar."""
        node = self.get(name)
        return (
            node.value
            if node is not None and node.kind == "scalar" and node.tag != "null"
            else None
        )


def load(source: Text, path: str) -> list[Node]:
    """The documents of a YAML text; raises YamlTrouble."""
    try:
        return _build(source.text, path)
    except yaml.MarkedYAMLError as error:
        at = _at(error.problem_mark or error.context_mark, path)
        raise YamlTrouble(at, f"not YAML ({error.problem or error})") from error
    except UnicodeEncodeError as error:
        line = source.text.count("\n", 0, error.start) + 1
        raise YamlTrouble(At(path, line), "a byte in it is not UTF-8") from error
    except yaml.reader.ReaderError as error:
        line = source.text.count("\n", 0, int(error.position)) + 1
        raise YamlTrouble(At(path, line), "it holds a control character") from error


def _build(text: str, path: str) -> list[Node]:
    roots: list[Node] = []
    stack: list[tuple[Node, Node | None]] = []  # (open collection, key that waits for its value)
    anchors: dict[str, Node] = {}
    for count, event in enumerate(yaml.parse(text, Loader=_Loader)):
        at = _at(event.start_mark, path)
        if count > MAX_KEYS or len(stack) > MAX_DEPTH:
            raise YamlTrouble(at, "it is larger or deeper than a file that people write")
        if isinstance(event, yaml.CollectionEndEvent):
            node, _ = stack.pop()
            node.end = _line(event.end_mark)
            continue
        found = _node(event, at, anchors)
        if found is None:
            continue
        anchor = getattr(event, "anchor", None)
        if anchor and not isinstance(event, yaml.AliasEvent):
            anchors[anchor] = found
        _attach(found, stack, roots)
        if isinstance(event, yaml.CollectionStartEvent):
            stack.append((found, None))
    return roots


class _Mark(Protocol):
    line: int
    column: int


def _at(mark: _Mark | None, path: str) -> At:
    return At(path, mark.line + 1, mark.column + 1) if mark else At(path, 1)


def _line(mark: _Mark | None) -> int:
    return mark.line if mark else 0


def _node(event: yaml.Event, at: At, anchors: dict[str, Node]) -> Node | None:
    if isinstance(event, yaml.AliasEvent):
        return anchors.get(event.anchor or "")
    if isinstance(event, yaml.MappingStartEvent):
        return Node("map", at, tag="map")
    if isinstance(event, yaml.SequenceStartEvent):
        return Node("list", at, tag="list")
    if isinstance(event, yaml.ScalarEvent):
        tag = "str"
        if event.implicit[0] and not event.style:
            tag = next((name for name, rule in _TAGS.items() if rule.match(event.value)), "str")
        return Node(
            "scalar", at, event.value, tag, end=_line(event.end_mark), style=event.style or ""
        )
    return None


def _attach(node: Node, stack: list[tuple[Node, Node | None]], roots: list[Node]) -> None:
    if not stack:
        roots.append(node)
        return
    parent, key = stack[-1]
    if parent.kind == "list":
        parent.items.append((None, node))
    elif key is None:
        stack[-1] = (parent, node)
    else:
        parent.items.append((key, node))
        stack[-1] = (parent, None)
