"""The syntax tree of a shell text: tree-sitter's, with places instead of byte offsets."""

from __future__ import annotations

import functools

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from sparkwright.lint.model import At
from sparkwright.lint.text import Text

__all__ = ["Node", "Tree"]


@functools.cache
def _parser() -> Parser:
    return Parser(Language(tree_sitter_bash.language()))


class Tree:
    """A parsed shell text."""

    def __init__(self, source: Text) -> None:
        """Never fails: what is not shell comes out as error nodes."""
        self.source = source
        self.raw = source.text.encode("utf-8", "surrogateescape")
        self._chars = None if len(self.raw) == len(source.text) else _char_offsets(source.text)
        self.root = _parser().parse(self.raw).root_node

    def text(self, node: Node) -> str:
        """A node's text as it stands in the file."""
        return self.raw[node.start_byte : node.end_byte].decode("utf-8", "surrogateescape")

    def slice(self, start: int, end: int) -> str:
        """Text between two byte offsets."""
        return self.raw[start:end].decode("utf-8", "surrogateescape")

    def offset(self, byte: int) -> int:
        """The character offset of a byte offset."""
        return byte if self._chars is None else self._chars[min(byte, len(self._chars) - 1)]

    def at(self, node: Node) -> At:
        """Where a node begins."""
        return self.source.at(self.offset(node.start_byte))


def _char_offsets(text: str) -> list[int]:
    """The character offset of every byte, and one more for the end."""
    found: list[int] = []
    for at, char in enumerate(text):
        found.extend([at] * len(char.encode("utf-8", "surrogateescape")))
    return [*found, len(text)]
