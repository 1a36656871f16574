"""Operations of pyinfra 3.10.0 that report a change or fail on every second run are not used."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from sparkwright.paths import PROJECT

OURS = [*sorted((PROJECT / "tasks").glob("*.py")), *sorted((PROJECT / "sparkwright").glob("*.py")),
        PROJECT / "deploy.py"]  # fmt: skip
# git.repo: a tag or a submodule always changes, with user= the second run fails. uv.venv: the
# second run fails. pip.packages: local versions (+cu128) and extras. apt.deb(url): always
# reinstalls. systemd.service(daemon_reload=True): always changes.
TRAPS = {"repo", "venv", "packages", "deb", "put", "template", "download", "sync", "rsync"}


def found(source: str) -> Iterator[str]:
    """What a module uses of the operations that are traps."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pyinfra"):
            names = {alias.name for alias in node.names}
            if "operations" in f"{node.module}.{' '.join(sorted(names))}":
                yield f"import of {node.module}: {', '.join(sorted(names))}"
        elif isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name.startswith("pyinfra.operations"))
        elif isinstance(node, ast.Call):
            for word in node.keywords:
                constant = isinstance(word.value, ast.Constant) and word.value.value
                if word.arg in {"_timeout", "_if", "_run_once", "_serial"}:
                    yield f"{word.arg}="
                elif word.arg in {"daemon_reload", "restarted"} and constant:
                    yield f"{word.arg}=True"
                elif word.arg == "src" and "://" in str(constant):
                    yield f"src={constant!s}"
            if isinstance(node.func, ast.Attribute) and node.func.attr in TRAPS:
                owner = ast.unparse(node.func.value)
                if owner in {"git", "uv", "pip", "apt", "files"}:
                    yield f"{owner}.{node.func.attr}"


@pytest.mark.parametrize("path", OURS, ids=lambda p: str(p.relative_to(PROJECT)))
def test_no_operation_that_changes_on_every_run(path: Path) -> None:
    assert list(found(path.read_text())) == []


BAD = {
    "from pyinfra.operations import git": "import of pyinfra.operations: git",
    "from pyinfra import operations": "import of pyinfra: operations",
    "import pyinfra.operations.pip": "pyinfra.operations.pip",
    "git.repo('x')": "git.repo",
    "uv.venv('x')": "uv.venv",
    "pip.packages('x')": "pip.packages",
    "apt.deb(src='https://x/y.deb')": "src=https://x/y.deb",
    "service('x', daemon_reload=True)": "daemon_reload=True",
    "service('x', restarted=True)": "restarted=True",
    "ensure(x, _if=y)": "_if=",
    "ensure(x, _timeout=5)": "_timeout=",
}


@pytest.mark.parametrize("source", BAD)
def test_the_rule_sees_each_of_them(source: str) -> None:
    assert BAD[source] in list(found(source))
