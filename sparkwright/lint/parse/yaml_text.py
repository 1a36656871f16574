"""Values of a YAML tree for others: as paths, and as text with the place of each line."""

from __future__ import annotations

from collections.abc import Iterator

from sparkwright.lint.model import At, Key
from sparkwright.lint.parse.yaml_tree import MAX_DEPTH, MAX_KEYS, Node
from sparkwright.lint.text import Text


def keys(root: Node) -> Iterator[Key]:
    """Every value of a document with its path; at most MAX_KEYS, whatever aliases say."""
    left = MAX_KEYS
    todo: list[tuple[str, Node]] = [("", root)]
    while todo and left:
        left -= 1
        path, node = todo.pop()
        value = node.value if node.kind == "scalar" and node.tag != "null" else None
        yield Key(path, value, node.at, node.tag)
        if len(todo) < MAX_KEYS and path.count("/") < MAX_DEPTH:
            inner = [(k.value if k else str(i), v) for i, (k, v) in enumerate(node.items)]
            todo += [(f"{path}/{n}" if path else n, v) for n, v in reversed(inner)]


def text(node: Node, lines: list[str]) -> Text:
    """A scalar's text with the place of each of its lines.

    + lines: of the file: a block's lines are found there, quoted and folded ones as well
    """
    marks: list[tuple[int, At]] = []
    offset = 0
    first = node.at.line - 1
    for number in range(first, min(node.end + 1, len(lines))):
        line = lines[number]
        column = node.at.column - 1 if number == first else len(line) - len(line.lstrip())
        if node.style in ("|", ">") and number == first:
            continue
        piece = line[column:].strip()
        if number == first and node.style:
            piece, column = piece[1:], column + 1
        piece = piece.rstrip("\"'") if node.style in ("'", '"') else piece
        found = node.value.find(piece, offset) if piece else -1
        if found < 0 and piece:
            found = offset if number == first else -1
        if found >= 0:
            marks.append((found, At(node.at.file, number + 1, column + 1)))
            offset = found + len(piece)
    marks = marks or [(0, node.at)]
    if marks[0][0] != 0:
        marks.insert(0, (0, marks[0][1]))
    return Text(node.value, tuple(marks))
