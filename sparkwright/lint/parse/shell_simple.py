"""Simple commands, assignments and redirections of a shell walk."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from sparkwright.lint.model import Assignment, At, Command, How, Redirect, Unsure, Word
from sparkwright.lint.parse import shell_builtins
from sparkwright.lint.parse.shell_assign import SUBSTITUTIONS, made, substitutions
from sparkwright.lint.parse.shell_tree import Node
from sparkwright.lint.parse.shell_walked import Embedded, Seen
from sparkwright.lint.parse.wrappers import unwrap
from sparkwright.lint.text import UNKNOWN, Text

if TYPE_CHECKING:
    from sparkwright.lint.parse.shell_walk import Walker

_REDIRECTIONS: Final = frozenset({"file_redirect", "herestring_redirect", "heredoc_redirect"})
_REDIRECTS: Final = frozenset({">", ">>", "<", ">|", "&>", "&>>", ">&", "<&"})


def command(walker: Walker, node: Node) -> None:
    """One simple command: its words, what it inherits, and what it does to the variables."""
    words = _words(walker, node)
    env: list[Assignment] = []
    redirects: list[Redirect] = []
    for child in node.children:
        if child.type == "variable_assignment":
            env += made(walker, child, How.PREFIX)
        elif child.type in _REDIRECTIONS:
            redirects += _redirect(walker, child)
        substitutions(walker, child)
    if not words:
        return
    bare = unwrap(words)
    found = Command(
        tuple(bare.argv), walker.tree.at(node), (*env, *bare.env), tuple(redirects), bare.wrapped,
        bare.user, where=walker.where, background=walker.background,
    )  # fmt: skip
    walker.out.seen.append(Seen(found, walker.state.environment(), walker.state.sourced))
    name = words[0].text or ""
    if name in walker.functions:
        walker.call(name, tuple(words[1:]))
    else:
        shell_builtins.run(walker, found, tuple(words))


def _words(walker: Walker, node: Node) -> list[Word]:
    """The words of a command; a backslash at a line's end inside of a word joins its parts."""
    words: list[Word] = []
    end = -1
    for child in node.named_children:
        if child.type in _REDIRECTIONS or child.type == "variable_assignment":
            continue
        added = list(walker.expander.words(child))
        if words and added and walker.tree.slice(end, child.start_byte) == "\\\n":
            words[-1] = _joined(words[-1], added.pop(0))
        words += added
        end = child.end_byte
    return words


def _joined(one: Word, two: Word) -> Word:
    known = one.text is not None and two.text is not None
    text = one.shape + two.shape
    return replace(one, text=text if known else None, raw=f"{one.raw}\\\n{two.raw}", pattern=text)


def test(walker: Walker, node: Node) -> None:
    """`[ … ]` changes nothing; only its substitutions run."""
    for child in node.named_children:
        substitutions(walker, child)


def redirected(walker: Walker, node: Node) -> None:
    """`command > file`, and texts that follow it (`<<EOF`)."""
    body = node.child_by_field_name("body")
    start = len(walker.out.seen)
    if body is not None:
        walker.statement(body)
    found = [item for child in node.children for item in _redirect(walker, child)]
    if len(walker.out.seen) > start:
        seen = walker.out.seen[start]
        more = replace(seen.command, redirects=(*seen.command.redirects, *found))
        walker.out.seen[start] = replace(seen, command=more)
    for child in node.children:
        if child.type == "heredoc_redirect":
            _heredoc(walker, child, start, found)


def _redirect(walker: Walker, node: Node) -> list[Redirect]:
    if node.type == "heredoc_redirect":
        return [item for child in node.children for item in _redirect(walker, child)]
    target = node.child_by_field_name("destination")
    if node.type != "file_redirect" or target is None:
        return []
    op = next((child.type for child in node.children if child.type in _REDIRECTS), ">")
    return [Redirect(op, word) for word in walker.expander.words(target)[:1]]


def _heredoc(walker: Walker, node: Node, start: int, found: list[Redirect]) -> None:
    """A text below the command: a file that it writes, or a script that it runs."""
    part = {child.type: child for child in node.children}
    for child in node.named_children:
        if child.type in ("pipeline", "list", "command"):
            walker.statement(child)
    if "heredoc_body" not in part or "heredoc_start" not in part:
        return
    literal = walker.tree.text(part["heredoc_start"])[:1] in "'\"\\"
    text = _block(walker, part["heredoc_body"], literal, "<<-" in part)
    commands = [seen.command for seen in walker.out.seen[start:]]
    target = next((item.target.shape for item in found if item.op in (">", ">>")), "")
    for item in commands:
        if item.name == "tee":
            target = next((w.shape for w in item.argv[1:] if not w.shape.startswith("-")), target)
    runs = any(c.name in ("bash", "sh", "ssh", "sudo") or "bash" in c.texts() for c in commands)
    if target or runs:
        walker.out.embedded.append(Embedded(target, text))


def _block(walker: Walker, node: Node, literal: bool, tabs: bool) -> Text:
    """A here-document's text: variables in it replaced unless its word is quoted."""
    tree, out = walker.tree, ""
    marks: list[tuple[int, At]] = []
    place = node.start_byte
    inner = [] if literal else [c for c in node.named_children if c.type.endswith("expansion")]
    inner += [] if literal else [c for c in node.named_children if c.type in SUBSTITUTIONS]
    for child in [*sorted(inner, key=lambda c: c.start_byte), None]:
        end = child.start_byte if child else node.end_byte
        offset = tree.offset(place)
        for line in tree.slice(place, end).splitlines(keepends=True):
            marks.append((len(out), tree.source.at(offset)))
            offset += len(line)
            kept = line.lstrip("\t") if tabs else line
            out += kept if literal else re.sub(r"\\([$`\\])", r"\1", kept)
        if child is not None:
            marks.append((len(out), tree.at(child)))
            for bit in walker.expander.bits(child, True):
                out += UNKNOWN if bit.text is None else bit.text
            place = child.end_byte
    return Text(out, tuple(marks) or ((0, tree.at(node)),))


def unsure(walker: Walker, at: At, what: str) -> None:
    """Note something that the walk could not tell."""
    walker.out.unsure.append(Unsure(at, what))
