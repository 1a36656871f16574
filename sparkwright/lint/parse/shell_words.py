"""Words of a shell text: quotes, variables and braces as bash reads them."""

from __future__ import annotations

import re
from typing import Final

from sparkwright.lint.model import At, Word
from sparkwright.lint.parse.shell_fields import braces, fields
from sparkwright.lint.parse.shell_tree import Node, Tree
from sparkwright.lint.parse.shell_values import Array, Bit, Scalar, State
from sparkwright.lint.text import UNKNOWN

_ANSI: Final = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"', "e": "\x1b"}
# Characters that make more than themselves of an unquoted word.
_SPECIAL: Final = re.compile(rf"[\\~*?{{}}{UNKNOWN}]")
_DEFAULTS: Final = frozenset({":-", "-", ":=", "="})


class Expander:
    """Expands nodes of one tree in one state of the variables."""

    def __init__(self, tree: Tree, state: State) -> None:
        """The state may change between calls; each call sees it as it is then."""
        self.tree, self.state = tree, state

    def words(self, node: Node) -> tuple[Word, ...]:
        """The words that an argument becomes: usually one."""
        raw, at = self.tree.text(node), self.tree.at(node)
        if node.type in ("word", "number") and not _SPECIAL.search(raw):
            return (Word(raw, raw, at, pattern=raw, spots=((0, at),)),)
        return tuple(fields(braces(self.bits(node)), raw, at))

    def scalar(self, node: Node | None) -> Scalar:
        """The value of an assignment: no splitting, empty text is no bit at all."""
        return tuple(bit for bit in self.bits(node) if bit.text != "") if node else ()

    def bits(self, node: Node, quoted: bool = False) -> list[Bit]:
        """The pieces of a word in order."""
        kind, at = node.type, self.tree.at(node)
        if kind in ("word", "number", "extglob_pattern", "variable_name", "regex", "test_operator"):
            return [_plain(self.tree.text(node), at, quoted)]
        if kind == "raw_string":
            return [Bit(self.tree.text(node)[1:-1], _right(at), True, True, literal=True)]
        if kind == "ansi_c_string":
            return [Bit(_ansi(self.tree.text(node)[2:-1]), at, False, True, literal=True)]
        if kind in ("string", "translated_string"):
            return self._string(node)
        if kind == "concatenation":
            return [bit for child in node.children for bit in self.bits(child, quoted)]
        if kind == "simple_expansion":
            return self._variable(self.tree.text(node).lstrip("$"), at, quoted)
        if kind == "expansion":
            return self._expansion(node, quoted)
        if kind == "command_name":
            return [bit for child in node.children for bit in self.bits(child, quoted)]
        if not node.is_named and node.child_count == 0:
            return [Bit(self.tree.text(node), at, True, quoted, literal=True)]
        return [Bit(None, at, quoted=quoted)]

    def _string(self, node: Node) -> list[Bit]:
        """A double-quoted string; text between children is taken from the source itself."""
        found: list[Bit] = []
        start = node.children[0].end_byte if node.children else node.start_byte
        end = node.children[-1].start_byte if node.child_count > 1 else node.end_byte
        for child in (c for c in node.children[1:-1] if c.type != "string_content"):
            self._literal(start, child.start_byte, found)
            found += self.bits(child, True)
            start = child.end_byte
        self._literal(start, end, found)
        return found or [Bit("", self.tree.at(node), quoted=True, literal=True)]

    def _literal(self, start: int, end: int, found: list[Bit]) -> None:
        text, offset = self.tree.slice(start, end), self.tree.offset(start)
        for line in text.splitlines(keepends=True):
            at = self.tree.source.at(offset)
            offset += len(line)
            plain = re.sub(r"\\([$`\"\\])|\\\n", lambda m: m[1] or "", line)
            found.append(Bit(plain, at, plain == line, True, literal=True))

    def _variable(self, name: str, at: At, quoted: bool) -> list[Bit]:
        value = self.state.values.get(name)
        if name in ("@", "*") and self.state.arguments is not None:
            return [Bit(None, at, quoted=quoted, array=self.state.arguments)]
        if name.isdigit() and self.state.arguments is not None and int(name) > 0:
            words = self.state.arguments[int(name) - 1 : int(name)]
            known = words and not any(w.many for w in self.state.arguments[: int(name)])
            text = words[0].text if known else None
            return [Bit(text, at, quoted=quoted)]
        if isinstance(value, Array):
            first = value.words[0].text if value.words else ""
            return [Bit(first, at, quoted=quoted)]
        if value is None:
            return [Bit(None, at, quoted=quoted and name not in ("@", "*"))]
        return [_moved(bit, quoted) for bit in value] or [Bit("", at, quoted=quoted)]

    def _expansion(self, node: Node, quoted: bool) -> list[Bit]:
        at, text = self.tree.at(node), self.tree.text(node)
        if match := re.fullmatch(r"\$\{([A-Za-z_]\w*)\[[@*]\]\}", text):
            value = self.state.values.get(match[1])
            if isinstance(value, Array):
                return [Bit(None, at, quoted=quoted, array=value.words)]
            return [Bit(None, at)]
        if match := re.fullmatch(r"\$\{(\w+|@|\*)\}", text):
            return self._variable(match[1], at, quoted)
        parts = re.match(r"\$\{(\w+)(?:\[[@*]\])?(:?[-=+?])", text)
        if parts is None:
            return [Bit(None, at, quoted=quoted)]
        return self._default(node, parts[1], parts[2], quoted)

    def _default(self, node: Node, name: str, sign: str, quoted: bool) -> list[Bit]:
        """`${X:-text}`: the file's own text unless the caller sets X."""
        at, value = self.tree.at(node), self.state.values.get(name)
        if sign in (":?", "?"):
            return self._variable(name, at, quoted)
        if sign not in _DEFAULTS:
            return [Bit(None, at, quoted=quoted)]
        if value is not None and not isinstance(value, Array) and value:
            return self._variable(name, at, quoted)
        operator = next((c for c in node.children if self.tree.text(c) in _DEFAULTS), None)
        rest = [c for c in node.children if operator and c.start_byte >= operator.end_byte][:-1]
        found = [bit for child in rest for bit in self.bits(child, quoted)]
        if value is not None and name not in self.state.exported:
            return found or [Bit("", at, quoted=quoted)]
        unless = f"${name}" if name.isdigit() else name
        marked = [_replace(bit, unless) for bit in found]
        return marked or [Bit("", at, quoted=quoted, unless=unless)]


def _replace(bit: Bit, unless: str) -> Bit:
    return Bit(bit.text, bit.at, bit.exact, bit.quoted, bit.maybe, bit.unless or unless, bit.array)


def _moved(bit: Bit, quoted: bool) -> Bit:
    """A variable's piece where it is used: its quotes there count, not where it was assigned."""
    return Bit(bit.text, bit.at, bit.exact, quoted, bit.maybe, bit.unless, bit.array)


def _right(at: At) -> At:
    return At(at.file, at.line, at.column + 1)


def _plain(text: str, at: At, quoted: bool) -> Bit:
    """Unquoted text: backslashes go, a line's end after one too, and ~ is somebody's home."""
    if not quoted and re.match(r"~|[A-Za-z_]\w*=~", text):
        return Bit(None, at)
    plain = re.sub(r"\\(.|\n)", lambda m: "" if m[1] == "\n" else m[1], text)
    return Bit(plain, at, plain == text, quoted, literal=True)


def _ansi(text: str) -> str | None:
    if re.search(r"\\[^ntr\\'\"e]", text):
        return None
    return re.sub(r"\\(.)", lambda m: _ANSI[m[1]], text)
