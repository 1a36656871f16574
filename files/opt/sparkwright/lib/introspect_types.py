"""What vLLM's parser makes of a config class: each field's choices and number of values.

Follows `_compute_kwargs` of vllm/engine/arg_utils.py (0.13.0 to 0.33.0), without running it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from introspect_source import Found, Module, Package, constant

PLAIN = {"bool", "int", "float", "str", "dict", "list", "set", "tuple"}
# Type forms that stand for their first argument.
WRAPPERS = {"Annotated", "SkipValidation", "Final", "Required", "NotRequired"}
# Not fields of a dataclass.
NO_FIELD = ("ClassVar", "InitVar")


@dataclass(frozen=True)
class Hint:
    """One member of a type: "literal" with its values, "list" with its element type, …"""

    kind: str
    values: tuple[object, ...] = ()
    element: ast.expr | None = None


def hints(package: Package, module: Module, node: ast.expr, depth: int = 0) -> Iterator[Hint]:
    """The members of an annotation, aliases of the package resolved."""
    if depth > 12:
        yield Hint("other")
    elif isinstance(node, ast.BinOp):
        yield from hints(package, module, node.left, depth + 1)
        yield from hints(package, module, node.right, depth + 1)
    elif isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            inner = ast.parse(node.value, mode="eval").body
            yield from hints(package, module, inner, depth + 1)
        else:
            yield Hint("none" if node.value is None else "other")
    elif isinstance(node, ast.Subscript):
        yield from _subscript(package, module, node, depth)
    elif isinstance(node, ast.Name) and node.id in PLAIN:
        yield Hint(node.id)
    elif isinstance(node, ast.Name) and (found := package.find(module, node.id)):
        yield from _named(package, found, depth)
    else:
        yield Hint("other")


def _named(package: Package, found: Found, depth: int) -> Iterator[Hint]:
    if isinstance(found.node, ast.ClassDef):
        marks = " ".join(ast.unparse(mark) for mark in found.node.decorator_list)
        yield Hint("dataclass" if "dataclass" in marks or "config" in marks else "other")
    elif isinstance(found.node, ast.FunctionDef):
        yield Hint("other")
    else:
        yield from hints(package, found.module, found.node, depth + 1)


def _subscript(package: Package, module: Module, node: ast.Subscript, depth: int) -> Iterator[Hint]:
    name = ast.unparse(node.value).rsplit(".", 1)[-1]
    inside = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if name == "Literal":
        yield Hint("literal", tuple(_literals(package, module, inside)))
    elif name in WRAPPERS:
        yield from hints(package, module, inside[0], depth + 1)
    elif name in ("Union", "Optional"):
        for part in inside:
            yield from hints(package, module, part, depth + 1)
        if name == "Optional":
            yield Hint("none")
    elif name.lower() in PLAIN:
        yield Hint(name.lower(), element=inside[0])
    else:
        yield Hint("other")


def _literals(package: Package, module: Module, nodes: list[ast.expr]) -> Iterator[object]:
    """Members of a Literal; one inside of another is flattened, as typing does."""
    for node in nodes:
        if isinstance(node, ast.Constant):
            yield node.value
        else:
            for hint in hints(package, module, node):
                yield from hint.values


def literal(package: Package, module: Module | None, name: str) -> list[str] | None:
    """The texts of `NAME = Literal[...]` in a module; None when there is no such thing."""
    found = package.find(module, name) if module else None
    if found is None or not isinstance(found.node, ast.Subscript):
        return None
    members = [v for hint in hints(package, found.module, found.node) for v in hint.values]
    return [str(value) for value in members] or None


def fields(package: Package, found: Found) -> dict[str, tuple[Module, ast.expr, str]]:
    """Fields of a config class and its bases: name -> (module, annotation, description)."""
    result: dict[str, tuple[Module, ast.expr, str]] = {}
    for base in package.bases(found):
        result |= fields(package, base)
    body = found.node.body if isinstance(found.node, ast.ClassDef) else []
    for part, after in zip(body, [*body[1:], None], strict=True):
        if not isinstance(part, ast.AnnAssign) or not isinstance(part.target, ast.Name):
            continue
        if ast.unparse(part.annotation).startswith(NO_FIELD):
            continue
        text = constant(after.value) if isinstance(after, ast.Expr) else None
        described = text if isinstance(text, str) else ""
        result[part.target.id] = (found.module, part.annotation, described)
    return result


def arguments(package: Package, found: Found, switch: bool) -> dict[str, dict[str, Any]]:
    """The argparse keywords of every field of a config class, those that matter here.

    + switch: whether `bool | str | None` is a flag with an optional value, as of 0.20 or so
    """
    made = {}
    for name, (module, annotation, text) in fields(package, found).items():
        members = list(hints(package, module, annotation))
        made[name] = {"help": text, **_keywords(package, module, members, switch)}
    return made


def _keywords(
    package: Package, module: Module, members: list[Hint], switch: bool
) -> dict[str, Any]:
    """The same order of questions as upstream's: the first that fits decides."""
    kinds = {hint.kind: hint for hint in members}
    none = ["None"] if "none" in kinds else []
    if "dataclass" in kinds:
        return {}
    if switch and set(kinds) == {"bool", "str", "none"}:
        return {"nargs": "?"}
    if "bool" in kinds:
        return {"action": "BooleanOptionalAction"}
    if "literal" in kinds:
        # With str beside it, the values are only shown.
        texts = _sorted(kinds["literal"].values)
        return {} if "str" in kinds else {"choices": texts + none}
    for kind in ("tuple", "list", "set"):
        if hint := kinds.get(kind):
            inside = list(hints(package, module, hint.element)) if hint.element else []
            if len(inside) == 1 and inside[0].kind == "literal":
                texts = _sorted(inside[0].values)
                return {"nargs": "+", "choices": texts + none}
            return {"nargs": "+"}
    return {}


def _sorted(values: tuple[object, ...]) -> list[str]:
    """Numbers by size, then texts, as argparse shows them."""
    number = (int, float)
    return [
        str(value)
        for value in sorted(
            values,
            key=lambda v: (not isinstance(v, number), v if isinstance(v, number) else 0, str(v)),
        )
    ]
