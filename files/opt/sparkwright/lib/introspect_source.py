"""A package's Python sources, read and never run: names are followed from module to module.

Used by introspect_vllm.py. Importing vLLM takes 12 to 54 s, needs torch and, in some releases,
a GPU; reading what is asked for takes under a second (measured on 0.17.1 and 0.33.0).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

Assigned = ast.expr | ast.ClassDef | ast.FunctionDef


@dataclass(frozen=True)
class Found:
    """Where a name is defined: the module and the expression, class or function there."""

    module: Module
    node: Assigned


@dataclass(frozen=True)
class Method:
    """A function and the class that has it."""

    owner: Found
    node: ast.FunctionDef


@dataclass
class Module:
    """One parsed file.

    + names: top-level name -> what it is assigned to
    + imports: top-level name -> (dotted module, name there)
    + stars: modules of which everything is imported
    """

    dotted: str
    tree: ast.Module
    names: dict[str, Assigned] = field(default_factory=dict)
    imports: dict[str, tuple[str, str]] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)


class Package:
    """The sources of one package.

    + root: its directory (…/site-packages/vllm)
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._modules: dict[str, Module | None] = {}

    def text(self, path: str) -> str:
        """A file's text; empty when this release has no such file."""
        place = self.root / path
        return place.read_text(encoding="utf-8") if place.is_file() else ""

    def module(self, dotted: str) -> Module | None:
        """A module by its dotted name, parsed once; None when it is not of this package."""
        if dotted not in self._modules:
            self._modules[dotted] = self._load(dotted)
        return self._modules[dotted]

    def _load(self, dotted: str) -> Module | None:
        parts = dotted.split(".")
        if parts[0] != self.root.name:
            return None
        place = self.root.joinpath(*parts[1:])
        for path in (place.with_suffix(".py") if parts[1:] else place, place / "__init__.py"):
            if path.is_file():
                tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
                return _index(Module(dotted, tree), path.name == "__init__.py")
        return None

    def first(self, *dotted: str) -> Module | None:
        """The first module of these that this release has: files moved between releases."""
        return next((found for name in dotted if (found := self.module(name))), None)

    def find(self, module: Module, name: str, depth: int = 0) -> Found | None:
        """What a name means in a module, through up to 8 imports; None: not of this package."""
        if name in module.names:
            return Found(module, module.names[name])
        places = [(dotted, name) for dotted in module.stars]
        if name in module.imports:
            places.insert(0, module.imports[name])
        for dotted, there in places if depth < 8 else ():
            target = self.module(dotted)
            if target and (hit := self.find(target, there, depth + 1)):
                return hit
        return None

    def bases(self, found: Found) -> Iterator[Found]:
        """A class's own bases that are of this package."""
        for base in found.node.bases if isinstance(found.node, ast.ClassDef) else ():
            if isinstance(base, ast.Name):
                target = self.find(found.module, base.id)
                if target and isinstance(target.node, ast.ClassDef):
                    yield target

    def method(self, found: Found, name: str) -> Method | None:
        """A method of a class or of its bases."""
        for part in found.node.body if isinstance(found.node, ast.ClassDef) else ():
            if isinstance(part, ast.FunctionDef) and part.name == name:
                return Method(found, part)
        return next((hit for base in self.bases(found) if (hit := self.method(base, name))), None)


def _index(module: Module, is_package: bool) -> Module:
    for statement in _statements(module.tree.body):
        if isinstance(statement, ast.ImportFrom):
            _import(module, statement, is_package)
        elif isinstance(statement, ast.ClassDef | ast.FunctionDef):
            module.names[statement.name] = statement
        elif isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
            for target in _targets(statement):
                if isinstance(target, ast.Name):
                    module.names[target.id] = statement.value
    return module


def _targets(statement: ast.Assign | ast.AnnAssign) -> list[ast.expr]:
    return statement.targets if isinstance(statement, ast.Assign) else [statement.target]


def _import(module: Module, statement: ast.ImportFrom, is_package: bool) -> None:
    dotted = statement.module or ""
    if statement.level:
        parts = module.dotted.split(".")
        keep = len(parts) - statement.level + (1 if is_package else 0)
        dotted = ".".join([*parts[:keep], *([dotted] if dotted else [])])
    for alias in statement.names:
        if alias.name == "*":
            module.stars.append(dotted)
        else:
            module.imports[alias.asname or alias.name] = (dotted, alias.name)


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Top-level statements that run: of `if TYPE_CHECKING` only what stands after else."""
    for statement in body:
        if isinstance(statement, ast.If):
            test = ast.unparse(statement.test)
            if not test.endswith("TYPE_CHECKING") or test.startswith("not "):
                yield from _statements(statement.body)
            yield from _statements(statement.orelse)
        elif isinstance(statement, ast.Try):
            yield from _statements(statement.body)
        else:
            yield statement


def constant(node: ast.AST | None) -> object:
    """A literal's value; None for anything else, and for None."""
    return node.value if isinstance(node, ast.Constant) else None


def strings(node: ast.AST | None) -> list[str] | None:
    """The members of a list, tuple or set of texts; None for anything else."""
    if not isinstance(node, ast.List | ast.Tuple | ast.Set) or not node.elts:
        return None
    values = [constant(element) for element in node.elts]
    return [v for v in values if isinstance(v, str)] if all_text(values) else None


def all_text(values: list[object]) -> bool:
    """Whether all of them are text."""
    return all(isinstance(value, str) for value in values)
