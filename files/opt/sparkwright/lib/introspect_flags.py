"""The flags of `vllm serve`, from the functions that build its parser; they are not run.

The few forms of statement that those functions use in 0.13.0 to 0.33.0 are followed; what is not
understood is left out, never guessed. Checked against the real parsers of 0.17.1 and 0.33.0.
"""

from __future__ import annotations

import ast
from typing import Any

from introspect_source import Found, Module, Package
from introspect_types import arguments
from introspect_values import Scope, Values

PARSERS = (
    "vllm.entrypoints.common.cli_args",  # 0.33.0
    "vllm.entrypoints.launchers.cli_args",  # 0.31.0, 0.32.0
    "vllm.entrypoints.openai.cli_args",  # up to 0.30.0
)
METHODS = ("add_cli_args", "_customize_cli_kwargs")


class FlagReader(Values):
    """Follows make_arg_parser and collects every add_argument.

    + flags: option with its dashes -> {"choices", "value", "help"}
    """

    def __init__(self, package: Package) -> None:
        super().__init__(package)
        self.flags: dict[str, dict[str, Any]] = {}
        self._pairs = "class EnableDisableAction" in package.text("utils/argparse_utils.py")
        self._switch = 'kwargs[name]["const"] = True' in package.text("engine/arg_utils.py")

    def read(self) -> dict[str, dict[str, Any]]:
        """All flags. Raises ValueError when this is no package that serves."""
        module = self.package.first(*PARSERS)
        start = self.package.find(module, "make_arg_parser") if module else None
        if start is None or not isinstance(start.node, ast.FunctionDef):
            raise ValueError(f"{self.package.root}: no make_arg_parser in {', '.join(PARSERS)}")
        self._statements(start.node.body, {}, start.module)
        self._add(["-h", "--help"], {"action": "help"})
        return self.flags

    def _statements(self, body: list[ast.stmt], scope: Scope, module: Module) -> None:
        for part in body:
            if isinstance(part, ast.If):
                # What stands under a condition may run: --model, deletions that do no harm.
                self._statements(part.body + part.orelse, scope, module)
            elif isinstance(part, ast.For):
                for item in self.value(part.iter, scope, module) or ():
                    self.bind(part.target, item, scope)
                    self._statements(part.body, scope, module)
            elif isinstance(part, ast.Assign):
                self._assign(part, scope, module)
            elif isinstance(part, ast.AugAssign):
                added = ast.BinOp(part.target, part.op, part.value)
                self._store(part.target, self.value(added, scope, module), scope, module)
            elif isinstance(part, ast.Delete):
                for target in part.targets:
                    if isinstance(target, ast.Subscript):
                        place = self.value(target.value, scope, module)
                        if isinstance(place, dict):
                            place.pop(self.value(target.slice, scope, module), None)
            elif isinstance(part, ast.Expr):
                self.value(part.value, scope, module)

    def _assign(self, part: ast.Assign, scope: Scope, module: Module) -> None:
        value = self.value(part.value, scope, module)
        for target in part.targets:
            self._store(target, value, scope, module)

    def _store(self, target: ast.expr, value: Any, scope: Scope, module: Module) -> None:
        if isinstance(target, ast.Subscript):
            place = self.value(target.value, scope, module)
            if isinstance(place, dict):
                place[self.value(target.slice, scope, module)] = value
        else:
            self.bind(target, value, scope)

    def call(self, node: ast.Call, scope: Scope, module: Module) -> Any:
        """The calls that make flags; every other as `Values` does."""
        words = ast.unparse(node.func).split(".")
        if words == ["get_kwargs"]:
            target = self.value(node.args[0], scope, module)
            is_class = isinstance(target, Found) and isinstance(target.node, ast.ClassDef)
            return arguments(self.package, target, self._switch) if is_class else {}
        if words[-1] == "add_argument":
            return self._argument(node, scope, module)
        if words[-1] in METHODS and isinstance(node.func, ast.Attribute):
            return self._method(words[-1], node, scope, module)
        return super().call(node, scope, module)

    def _method(self, name: str, node: ast.Call, scope: Scope, module: Module) -> Any:
        """Run a class's own method; what it is given comes back, changed in place."""
        owner = ast.unparse(node.func).removesuffix(f".{name}")
        given = self.value(node.args[0], scope, module) if node.args else None
        if owner == "super()":
            places = list(self.package.bases(scope["__class__"])) if "__class__" in scope else []
        else:
            target = self.value(ast.Name(owner), scope, module)
            places = [target] if isinstance(target, Found) else []
        hit = next((hit for place in places if (hit := self.package.method(place, name))), None)
        if hit:
            keep = {"cls": scope.get("cls") if owner == "super()" else places[0]}
            inner = {**keep, "__class__": hit.owner, hit.node.args.args[-1].arg: given}
            self._statements(hit.node.body, inner, hit.owner.module)
        return given

    def _argument(self, node: ast.Call, scope: Scope, module: Module) -> None:
        names: list[Any] = []
        for word in node.args:
            if isinstance(word, ast.Starred):
                names += self.value(word.value, scope, module) or []
            else:
                names.append(self.value(word, scope, module))
        given: dict[str, Any] = {}
        for keyword in node.keywords:
            value = self.value(keyword.value, scope, module)
            if keyword.arg is None:
                given |= value if isinstance(value, dict) else {}
            else:
                given[keyword.arg] = value
        self._add([n for n in names if isinstance(n, str) and n.startswith("-")], given)

    def _add(self, names: list[str], given: dict[str, Any]) -> None:
        """Record one argument under all its names, as argparse would."""
        action, nargs = str(given.get("action") or "store"), given.get("nargs")
        if pair := "BooleanOptionalAction" in action:
            names = [*names, *_negations(names, self._pairs)]
        bare = pair or action in ("store_true", "store_false", "help", "count", "version")
        choices, text = given.get("choices"), str(given.get("help") or "")
        if given.get("deprecated") is True and "deprecated" not in text.lower():
            text = f"Deprecated. {text}".strip()
        for name in names:
            self.flags[name] = {
                "choices": None if choices is None else [str(choice) for choice in choices],
                "value": False if bare else None if nargs in ("?", "*") else True,
                "help": text,
            }


def _negations(names: list[str], pairs: bool) -> list[str]:
    """The other half of boolean flags: --no-x, and of --enable-x also --disable-x and back."""
    long = [name for name in names if name.startswith("--")]
    other = [f"--no-{name[2:]}" for name in long]
    for here, there in (("--enable-", "--disable-"), ("--disable-", "--enable-")):
        other += [there + n.removeprefix(here) for n in long if pairs and n.startswith(here)]
    return other
