"""A walk through a shell text in the order it runs: commands, and the variables they see."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final

from sparkwright.lint.model import Word
from sparkwright.lint.parse import shell_assign, shell_simple
from sparkwright.lint.parse.shell_tree import Node, Tree, conditional
from sparkwright.lint.parse.shell_values import Bit, State, join
from sparkwright.lint.parse.shell_walked import Walked
from sparkwright.lint.parse.shell_words import Expander
from sparkwright.lint.text import Text

# Functions that call each other, and `bash -c` in `bash -c`: nobody nests deeper by hand.
MAX_DEPTH: Final = 12
_BODIES: Final = frozenset({"program", "compound_statement", "do_group"})


class Walker:
    """Walks one text; functions are entered where they are first called."""

    def __init__(self, source: Text, state: State, out: Walked, depth: int = 0) -> None:
        """
        + state: variables at the start; changed in place
        """
        self.tree, self.state, self.out, self.depth = Tree(source), state, out, depth
        self.expander = Expander(self.tree, state)
        self.functions: dict[str, Node] = {}
        self.entered: set[str] = set()
        self.where = ""
        self.background = False

    def run(self) -> None:
        """Walk everything, functions that nobody calls too."""
        self.statement(self.tree.root)
        for name in [name for name in self.functions if name not in self.entered]:
            with_state = self.state
            self._swap(with_state.copy())
            self.call(name, None)
            self._swap(with_state)

    def nested(self, source: Text, state: State) -> None:
        """Walk a script that is a word of this one, in a shell of its own."""
        if self.depth < MAX_DEPTH:
            inner = Walker(source, state, self.out, self.depth + 1)
            inner.where = self.where
            inner.run()

    def inline(self, source: Text) -> None:
        """Walk text in this shell (`eval`)."""
        if self.depth < MAX_DEPTH:
            inner = Walker(source, self.state, self.out, self.depth + 1)
            inner.where, inner.functions = self.where, self.functions
            inner.statement(inner.tree.root)

    def _swap(self, state: State) -> State:
        before = self.state
        self.state = self.expander.state = state
        return before

    def branch(self, nodes: Iterable[Node]) -> State:
        """Walk nodes on a copy of the state, and give that."""
        before = self._swap(self.state.copy())
        self.state.ended = False
        for node in nodes:
            self.statement(node)
        return self._swap(before)

    def statement(self, node: Node) -> None:
        """One node in the order of execution."""
        kind = node.type
        if self.depth > 8 * MAX_DEPTH or kind == "comment":
            return
        self.depth += 1
        handler = _HANDLERS.get(kind)
        if handler is not None:
            handler(self, node)
        elif kind in _BODIES or node.is_error:
            self._body(node)
        self.depth -= 1

    def _body(self, node: Node) -> None:
        children = node.children
        for at, child in enumerate(children):
            following = children[at + 1] if at + 1 < len(children) else None
            self.background = following is not None and following.type == "&"
            if child.is_named:
                self.statement(child)

    def _list(self, node: Node) -> None:
        left, right = node.named_children[0], node.named_children[-1]
        sign = node.children[1].type
        self.statement(left)
        if sign == "||" or conditional(left, self.tree):
            state = self.branch([right])
            self._joined([self.state, state], node)
        else:
            self.statement(right)

    def _joined(self, states: list[State], node: Node) -> None:
        line = self.tree.at(node).line
        base = self.state.copy()
        self.state.adopt(join(base, [base if s is self.state else s for s in states], line))

    def _if(self, node: Node) -> None:
        condition = [c for c in node.children_by_field_name("condition") if c.is_named]
        for part in condition:
            self.statement(part)
        extra = [c for c in node.named_children if c.type in ("elif_clause", "else_clause")]
        body = [c for c in node.named_children if c not in condition and c not in extra]
        states = [self.branch(body)]
        for clause in extra:
            states.append(self.branch(clause.named_children))
        if not any(clause.type == "else_clause" for clause in extra):
            states.append(self.state)
        self._joined(states, node)

    def _case(self, node: Node) -> None:
        items = [c for c in node.named_children if c.type == "case_item"]
        states, rest = [], True
        for item in items:
            values = item.children_by_field_name("value")
            rest = rest and not any(self.tree.text(value) == "*" for value in values)
            states.append(self.branch(c for c in item.named_children if c not in values))
        if rest or not states:
            states.append(self.state)
        self._joined(states, node)

    def _loop(self, node: Node) -> None:
        variable = node.child_by_field_name("variable")
        if variable is not None:
            name = self.tree.text(variable)
            self.state.values[name] = (Bit(None, self.tree.at(variable)),)
        body = node.child_by_field_name("body")
        for part in node.children_by_field_name("condition"):
            if part.is_named:
                self.statement(part)
        if body is not None:
            self._joined([self.state, self.branch([body])], node)

    def _alone(self, node: Node) -> None:
        """A subshell or substitution: what it assigns is lost, what it runs is not."""
        self.branch(node.named_children)

    def _pipeline(self, node: Node) -> None:
        before: int | None = None
        for child in node.named_children:
            start = len(self.out.seen)
            self.branch([child])
            if len(self.out.seen) > start and before is not None:
                seen = self.out.seen[start]
                piped = replace(seen.command, piped_from=before)
                self.out.seen[start] = replace(seen, command=piped)
            before = len(self.out.seen) - 1 if len(self.out.seen) > start else None

    def _function(self, node: Node) -> None:
        name = node.child_by_field_name("name")
        if name is not None:
            self.functions[self.tree.text(name)] = node

    def call(self, name: str, arguments: tuple[Word, ...] | None) -> None:
        """Enter a function; its commands are listed once, at its first call."""
        node = self.functions[name].child_by_field_name("body")
        if node is None or self.depth > 4 * MAX_DEPTH or name in self.entered:
            return
        self.entered.add(name)
        outer, self.where = self.where, name
        kept, self.state.arguments = self.state.arguments, arguments
        self.statement(node)
        self.state.arguments, self.where = kept, outer
        self.state.ended = False


Handler = Callable[[Walker, Node], None]


_HANDLERS: Mapping[str, Handler] = {
    "list": Walker._list,
    "if_statement": Walker._if,
    "case_statement": Walker._case,
    "for_statement": Walker._loop,
    "c_style_for_statement": Walker._loop,
    "while_statement": Walker._loop,
    "subshell": Walker._alone,
    "command_substitution": Walker._alone,
    "process_substitution": Walker._alone,
    "pipeline": Walker._pipeline,
    "function_definition": Walker._function,
    "command": shell_simple.command,
    "negated_command": Walker._body,
    "redirected_statement": shell_simple.redirected,
    "variable_assignment": shell_assign.assignments,
    "variable_assignments": shell_assign.assignments,
    "declaration_command": shell_assign.declaration,
    "unset_command": shell_assign.unset,
    "test_command": shell_simple.test,
}
