"""The syntax tree of a shell text: tree-sitter's, with places instead of byte offsets."""

from __future__ import annotations

import functools
from typing import Final

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from sparkwright.lint.model import At
from sparkwright.lint.text import Text

__all__ = ["Node", "Tree", "conditional"]

# Commands that ask: what stands behind `&&` then is a branch, not the next step.
_CONDITIONS: Final = frozenset(
    {"[", "[[", "test", "grep", "command", "which", "type", "!", "pgrep"}
)


@functools.cache
def _parser() -> Parser:
    return Parser(Language(tree_sitter_bash.language()))


class Tree:
    """A parsed shell text."""

    def __init__(self, source: Text) -> None:
        """Never fails: what is not shell comes out as error nodes."""
        self.source = source
        self.raw = source.text.encode("utf-8", "surrogateescape")
        self.ascii = len(self.raw) == len(source.text)
        self.root = _parser().parse(self.raw).root_node

    def text(self, node: Node) -> str:
        """A node's text as it stands in the file."""
        return self.slice(node.start_byte, node.end_byte)

    def slice(self, start: int, end: int) -> str:
        """Text between two byte offsets."""
        return self.raw[start:end].decode("utf-8", "surrogateescape")

    def offset(self, byte: int) -> int:
        """The character offset of a byte offset."""
        return byte if self.ascii else len(self.slice(0, byte))

    def at(self, node: Node) -> At:
        """Where a node begins."""
        if not self.source.by_line:
            return self.source.at(self.offset(node.start_byte))
        row, column = node.start_point
        line = self.source.marks[row][1]
        if not self.ascii:
            column = len(self.slice(node.start_byte - column, node.start_byte))
        return At(line.file, line.line, line.column + column)


def conditional(node: Node, tree: Tree) -> bool:
    """Whether the left side of `&&` is a question."""
    if node.type in ("test_command", "negated_command"):
        return True
    if node.type == "list":
        return conditional(node.named_children[0], tree)
    text = tree.text(node).lstrip("(").split(maxsplit=1)
    return bool(text) and text[0] in _CONDITIONS
