"""What an expression in vLLM's parser functions comes to, without running it.

Understands the forms that those functions use in 0.13.0 to 0.33.0; the rest comes to None.
"""

from __future__ import annotations

import ast
import itertools
from typing import Any

from introspect_source import Module, Package
from introspect_types import literal

# The device on the machines we serve: `current_platform.device_type` there.
DEVICE = "cuda"
Scope = dict[str, Any]


class Values:
    """Evaluates expressions of one package."""

    def __init__(self, package: Package) -> None:
        self.package = package

    def call(self, node: ast.Call, scope: Scope, module: Module) -> Any:
        """What a call comes to; a reader of parsers adds the calls that it knows."""
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        given = [self.value(word, scope, module) for word in node.args]
        if isinstance(node.func, ast.Name):
            return self._function(node, given, module)
        if owner is None:
            return None
        return _plain(
            ast.unparse(node.func).rsplit(".", 1)[-1], self.value(owner, scope, module), given
        )

    def _function(self, node: ast.Call, given: list[Any], module: Module) -> Any:
        name = ast.unparse(node.func)
        if name == "get_args":
            return literal(self.package, module, ast.unparse(node.args[0])) or []
        if name == "permutations":
            words = [ast.unparse(word.value) for word in node.keywords if word.arg == "r"]
            length = int(words[0]) if words and words[0].isdigit() else None
            return list(itertools.permutations(given[0] or (), length))
        if name in ("list", "sorted", "tuple") and given:
            return sorted(given[0] or ()) if name == "sorted" else list(given[0] or ())
        return None

    def bind(self, target: ast.expr, value: Any, scope: Scope) -> None:
        """Give a name, or each of several, its value."""
        if isinstance(target, ast.Name):
            scope[target.id] = value
        elif isinstance(target, ast.Tuple):
            for name, item in zip(target.elts, value, strict=True):
                self.bind(name, item, scope)

    def value(self, node: ast.expr, scope: Scope, module: Module) -> Any:
        """What an expression is, as far as it matters; None for what is not understood."""
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return scope[node.id] if node.id in scope else self._global(node.id, module)
        if isinstance(node, ast.List | ast.Tuple):
            return [self.value(element, scope, module) for element in node.elts]
        if isinstance(node, ast.Call):
            return self.call(node, scope, module)
        handler = getattr(self, f"_{type(node).__name__.lower()}", None)
        return handler(node, scope, module) if handler else None

    def _global(self, name: str, module: Module) -> Any:
        found = self.package.find(module, name)
        if found is None or isinstance(found.node, ast.ClassDef | ast.FunctionDef):
            return found
        return self.value(found.node, {}, found.module)

    def _attribute(self, node: ast.Attribute, scope: Scope, module: Module) -> Any:
        return DEVICE if ast.unparse(node) == "current_platform.device_type" else node.attr

    def _dict(self, node: ast.Dict, scope: Scope, module: Module) -> dict[Any, Any]:
        made: dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            item = self.value(value, scope, module)
            if key is None:
                made |= item if isinstance(item, dict) else {}
            else:
                made[self.value(key, scope, module)] = item
        return made

    def _subscript(self, node: ast.Subscript, scope: Scope, module: Module) -> Any:
        place = self.value(node.value, scope, module)
        return place.get(self.value(node.slice, scope, module)) if isinstance(place, dict) else None

    def _binop(self, node: ast.BinOp, scope: Scope, module: Module) -> Any:
        left, right = (self.value(side, scope, module) for side in (node.left, node.right))
        return left + right if type(left) is type(right) and isinstance(left, str | list) else left

    def _ifexp(self, node: ast.IfExp, scope: Scope, module: Module) -> Any:
        return self.value(node.body, scope, module)

    def _joinedstr(self, node: ast.JoinedStr, scope: Scope, module: Module) -> str:
        parts = (p.value if isinstance(p, ast.FormattedValue) else p for p in node.values)
        return "".join(str(self.value(part, scope, module)) for part in parts)

    def _listcomp(self, node: ast.ListComp, scope: Scope, module: Module) -> list[Any]:
        (loop,) = node.generators
        made = []
        for item in self.value(loop.iter, scope, module) or ():
            inner = dict(scope)
            self.bind(loop.target, item, inner)
            made.append(self.value(node.elt, inner, module))
        return made


def _plain(name: str, owner: Any, given: list[Any]) -> Any:
    """A method of a text, list or map."""
    if isinstance(owner, str) and name == "replace":
        return owner.replace(*given)
    if isinstance(owner, str) and name == "join":
        return owner.join(given[0] or ())
    if isinstance(owner, dict) and name == "items":
        return list(owner.items())
    if isinstance(owner, dict) and name in ("get", "pop"):
        return getattr(owner, name)(given[0], given[1] if len(given) > 1 else None)
    if isinstance(owner, list) and name == "remove" and given[0] in owner:
        owner.remove(given[0])
    if isinstance(owner, list) and name in ("append", "extend"):
        getattr(owner, name)(given[0])
    return None
