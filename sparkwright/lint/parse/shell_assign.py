"""Assignments of a shell walk: `A=1`, `export A=1`, `a+=(…)`, and what runs inside of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from sparkwright.lint.model import Assignment, How, Word
from sparkwright.lint.parse.shell_tree import Node
from sparkwright.lint.parse.shell_values import Array, Scalar

if TYPE_CHECKING:
    from sparkwright.lint.parse.shell_walk import Walker


SUBSTITUTIONS: Final = frozenset({"command_substitution", "process_substitution"})


def substitutions(walker: Walker, node: Node) -> None:
    """Commands inside of `$(…)` run too."""
    if node.type in SUBSTITUTIONS:
        walker.branch([node])
    elif node.type in ("string", "concatenation", "command_name", "variable_assignment", "array"):
        for child in node.named_children:
            substitutions(walker, child)


def assignments(walker: Walker, node: Node) -> None:
    """`A=1 B=2` without a command."""
    for child in [node] if node.type == "variable_assignment" else node.named_children:
        assign(walker, child, How.SHELL)


def assign(walker: Walker, node: Node, how: How) -> None:
    """Let a variable hold what the file says from here on."""
    substitutions(walker, node)
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


def made(walker: Walker, node: Node, how: How) -> Iterator[Assignment]:
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
