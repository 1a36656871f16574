"""Simple commands, assignments and redirections of a shell walk."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from sparkwright.lint.model import Assignment, At, Command, How, Redirect, Unsure, Word
from sparkwright.lint.parse import shell_builtins
from sparkwright.lint.parse.shell_tree import Node
from sparkwright.lint.parse.shell_values import Array, Scalar
from sparkwright.lint.parse.shell_walked import Embedded, Seen
from sparkwright.lint.parse.wrappers import unwrap
from sparkwright.lint.text import UNKNOWN, Text

if TYPE_CHECKING:
    from sparkwright.lint.parse.shell_walk import Walker

_REDIRECTS: Final = frozenset({">", ">>", "<", ">|", "&>", "&>>", ">&", "<&"})
_SUBSTITUTIONS: Final = frozenset({"command_substitution", "process_substitution"})


def command(walker: Walker, node: Node) -> None:
    """One simple command: its words, what it inherits, and what it does to the variables."""
    words: list[Word] = []
    env: list[Assignment] = []
    redirects: list[Redirect] = []
    for child in node.children:
        if child.type == "variable_assignment":
            env += _made(walker, child, How.PREFIX)
        elif child.type in ("file_redirect", "herestring_redirect", "heredoc_redirect"):
            redirects += _redirect(walker, child)
        elif child.is_named:
            words += walker.expander.words(child)
        _substitutions(walker, child)
    if not words:
        return
    bare = unwrap(words)
    made = Command(
        tuple(bare.argv), walker.tree.at(node), (*env, *bare.env), tuple(redirects), bare.wrapped,
        where=walker.where, background=walker.background,
    )  # fmt: skip
    walker.out.seen.append(Seen(made, walker.state.environment(), walker.state.sourced))
    name = words[0].text or ""
    if name in walker.functions:
        walker.call(name, tuple(words[1:]))
    else:
        shell_builtins.run(walker, made, tuple(words))


def _substitutions(walker: Walker, node: Node) -> None:
    """Commands inside of `$(…)` run too."""
    if node.type in _SUBSTITUTIONS:
        walker.branch([node])
    elif node.type in ("string", "concatenation", "command_name", "variable_assignment", "array"):
        for child in node.named_children:
            _substitutions(walker, child)


def test(walker: Walker, node: Node) -> None:
    """`[ … ]` changes nothing; only its substitutions run."""
    for child in node.named_children:
        _substitutions(walker, child)


def assignments(walker: Walker, node: Node) -> None:
    """`A=1 B=2` without a command."""
    for child in [node] if node.type == "variable_assignment" else node.named_children:
        assign(walker, child, How.SHELL)


def assign(walker: Walker, node: Node, how: How) -> None:
    """Let a variable hold what the file says from here on."""
    _substitutions(walker, node)
    state = walker.state
    name_node, value = node.child_by_field_name("name"), node.child_by_field_name("value")
    if name_node is None or name_node.type != "variable_name":
        return
    name = walker.tree.text(name_node)
    more = any(child.type == "+=" for child in node.children)
    old = state.values.get(name)
    if value is not None and value.type == "array":
        added = tuple(w for c in value.named_children for w in _element(walker, c))
        before = old.words if isinstance(old, Array) and more else ()
        state.values[name] = Array((*before, *added))
        return
    scalar = walker.expander.scalar(value)
    before_scalar = old if isinstance(old, tuple) and more else ()
    state.values[name] = (*before_scalar, *scalar)
    if how is How.EXPORT or state.allexport:
        state.exported[name] = True
    how = How.EXPORT if state.exported.get(name) else how
    made = _assignment(walker, node, name, (*before_scalar, *scalar), how)
    state.made[name] = made
    walker.out.assignments.append(made)


def _element(walker: Walker, node: Node) -> tuple[Word, ...]:
    return () if node.type == "comment" else walker.expander.words(node)


def _assignment(walker: Walker, node: Node, name: str, bits: Scalar, how: How) -> Assignment:
    known = all(bit.text is not None and not bit.maybe for bit in bits)
    unless = next((bit.unless for bit in bits if bit.unless), "")
    value = "".join(bit.text or "" for bit in bits) if known else None
    return Assignment(name, value, walker.tree.text(node), walker.tree.at(node), how, unless)


def _made(walker: Walker, node: Node, how: How) -> Iterator[Assignment]:
    name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
    if name is not None:
        bits = walker.expander.scalar(value)
        made = _assignment(walker, node, walker.tree.text(name), bits, how)
        walker.out.assignments.append(made)
        yield made


def declaration(walker: Walker, node: Node) -> None:
    """`export`, `declare`, `local`, `readonly`, `typeset`."""
    words = [walker.tree.text(child) for child in node.children if child.type == "word"]
    flags = "".join(word[1:] for word in words if word.startswith("-"))
    exported = (node.children[0].type == "export" and "n" not in flags) or "x" in flags
    for child in node.named_children:
        if child.type == "variable_assignment":
            assign(walker, child, How.EXPORT if exported else How.SHELL)
        elif child.type == "variable_name" and exported:
            _export(walker, walker.tree.text(child))


def _export(walker: Walker, name: str) -> None:
    """`export NAME` of a variable that was assigned before."""
    state = walker.state
    state.exported[name] = True
    made = state.made.get(name)
    if made is not None:
        state.made[name] = replace(made, how=How.EXPORT)
        walker.out.assignments.append(state.made[name])


def unset(walker: Walker, node: Node) -> None:
    """`unset NAME`: known to be empty."""
    for child in node.named_children:
        name = walker.tree.text(child)
        walker.state.values[name] = ()
        walker.state.made.pop(name, None)


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
    inner += [] if literal else [c for c in node.named_children if c.type in _SUBSTITUTIONS]
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
