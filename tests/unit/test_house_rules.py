"""House rules that a tool can check: each says what it protects, and was seen to fail."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sparkwright.fleet_settings import settings_defaults
from sparkwright.paths import PROJECT
from sparkwright.recipes import load_recipe, load_recipes

LIB = PROJECT / "files/opt/sparkwright/lib"
TASKS = sorted((PROJECT / "tasks").glob("[a-z]*.py"))
DEPLOY = [*TASKS, PROJECT / "deploy.py"]
PACKAGE = sorted((PROJECT / "sparkwright").glob("*.py"))
PROGRAMS = sorted((PROJECT / "files").rglob("*.py"))
OURS = [*DEPLOY, *PACKAGE, *PROGRAMS, PROJECT / "inventory.py", PROJECT / "group_data/all.py"]

# Lines of a module; these programs are one file each on the machine: the probe and status travel
# as text in one command, and the others are run by name from a unit.
MODULE, PROGRAM = 200, 220
LONGER = {"probe.py", "status.py"}
# Lines of a function's body without its docstring.
BODY = 30
LONGER_BODIES: dict[str, str] = {}

# Called at import in sparkwright/: they make values out of literals and touch nothing outside.
PURE = {
    "TypeVar",
    "dataclass",
    "field",
    "re.compile",
    "functools.cache",
    "operation",
    "frozenset",
    "object",
    "list",
    "set",
    "tuple",
    "one_of",  # ours: closures and values
    "_hex",
    "Ssh",
    "Source",
    "Spread",
    "_Dumper.add_representer",  # each on a class of its own, not on PyYAML's
    "_Loader.add_implicit_resolver",
    "Path",
    "Path(__file__).resolve",
}


def name(path: Path) -> str:
    return str(path.relative_to(PROJECT))


def every(paths: list[Path]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("path", paths, ids=name)


def tracked() -> list[Path]:
    """Files of the project that git has or would take."""
    words = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(words, cwd=PROJECT, capture_output=True, text=True, check=True).stdout
    found = [PROJECT / text for text in names.split("\0") if text]
    return sorted(path for path in found if path.is_file())


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def walk(path: Path, kind: type[ast.AST]) -> Iterator[ast.AST]:
    return (node for node in ast.walk(tree(path)) if isinstance(node, kind))


def attributes(path: Path) -> set[str]:
    """`x.y` texts of a module."""
    return {ast.unparse(node) for node in walk(path, ast.Attribute)}


# --- compare the machine with what is wanted; never ask what an earlier operation did ---


@every(DEPLOY)
def test_tasks_ask_no_machine(path: Path) -> None:
    """A fact in deploy code is read before anything is changed, once: it decides too early."""
    assert not any(text.endswith(".get_fact") for text in attributes(path))
    names = {alias.name for node in walk(path, ast.ImportFrom) for alias in node.names}  # type: ignore[attr-defined]
    assert not names & {"get_fact", "ask", "Machine"}


@every([*DEPLOY, *PACKAGE])
def test_nothing_depends_on_what_an_operation_did(path: Path) -> None:
    """A run that dies between upload and restart would never restart."""
    asked = {text.rsplit(".", 1)[1] for text in attributes(path)}
    assert not asked & {"did_change", "will_change", "did_not_change"}
    if path in DEPLOY:
        assert "changed" not in asked
    words = {k.arg for node in walk(path, ast.Call) for k in node.keywords}  # type: ignore[attr-defined]
    assert "_if" not in words


@every([*DEPLOY, *PACKAGE])
def test_pyinfras_own_operations_are_not_used(path: Path) -> None:
    """server.shell and python.call always count as changes; the others trust earlier answers."""
    modules = {node.module or "" for node in walk(path, ast.ImportFrom)}  # type: ignore[attr-defined]
    modules |= {alias.name for node in walk(path, ast.Import) for alias in node.names}  # type: ignore[attr-defined]
    assert not any(module.startswith(("pyinfra.operations", "pyinfra.facts")) for module in modules)


def operations(node: ast.AST) -> bool:
    """Whether there is a call of an operation in it: those carry a name for people."""
    calls = (part for part in ast.walk(node) if isinstance(part, ast.Call))
    return any(keyword.arg == "name" for call in calls for keyword in call.keywords)


@every(DEPLOY)
def test_loops_of_operations_use_host_loop(path: Path) -> None:
    """A plain loop whose length differs between machines is a cycle for pyinfra's order."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.For) and operations(node):
            assert ast.unparse(node.iter).startswith("host.loop(")
        if isinstance(node, ast.While | ast.ListComp | ast.SetComp | ast.GeneratorExp):
            assert not operations(node)


@every(TASKS)
def test_tasks_say_what_they_leave_and_need(path: Path) -> None:
    text = ast.get_docstring(tree(path)) or ""
    if path.name != "__init__.py":
        assert re.search(r"^Leaves: \S", text, re.M)
        assert re.search(r"^Needs:  \S", text, re.M)
        assert text.splitlines()[0].endswith(".")


@every(DEPLOY)
def test_tasks_hold_no_address(path: Path) -> None:
    """Every outside thing is an artifact of the lock: an air gap changes data, never a task."""
    assert not re.search(r"\w+://|\bwww\.", path.read_text())


def test_deploy_is_a_table_of_contents() -> None:
    text = (PROJECT / "deploy.py").read_text()
    assert len(text.splitlines()) <= 40
    used = set(re.findall(r"^(\w+)\.\w+\(", text, re.M))
    assert used == {path.stem for path in TASKS}
    assert not list(walk(PROJECT / "deploy.py", ast.FunctionDef))


# --- sizes ---


@every([*PACKAGE, *PROGRAMS, *DEPLOY])
def test_modules_are_short(path: Path) -> None:
    limit = 120 if path in DEPLOY else PROGRAM if path.name in LONGER else MODULE
    assert len(path.read_text().splitlines()) <= limit


def test_only_long_modules_are_excused() -> None:
    lines = {path.name: len(path.read_text().splitlines()) for path in PROGRAMS}
    assert {n for n in LONGER if lines[n] > MODULE} == LONGER


def bodies(path: Path) -> Iterator[tuple[str, int]]:
    """(function, lines of its body without the docstring)"""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = 1 if ast.get_docstring(node) is not None else 0
            body = node.body[first:]
            lines = (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0
            yield f"{path.name}:{node.name}", lines


@every(OURS)
def test_functions_are_short(path: Path) -> None:
    long = {function: lines for function, lines in bodies(path) if lines > BODY}
    assert set(long) == {text for text in LONGER_BODIES if text.startswith(f"{path.name}:")}, long


@pytest.mark.parametrize("path", [PROJECT / "README.md"], ids=name)
def test_the_readme_is_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 200


RECIPES = sorted((PROJECT / "recipes").glob("*.yaml"))


@every(RECIPES)
def test_recipes_are_short_and_load(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 50
    assert load_recipe(path).name == path.stem


def test_the_labs_recipes_load_beside_the_projects() -> None:
    found = load_recipes([PROJECT / "tests/lab/recipes", PROJECT / "recipes"])
    assert {path.stem for path in RECIPES if not path.name.startswith("_")} <= set(found)


# --- what runs where ---

SIBLINGS = {path.stem for path in PROGRAMS}
# The one program that runs in the Hub client's own environment.
EXTRA = {"weights_child.py": {"huggingface_hub"}}


@every(PROGRAMS)
def test_programs_on_the_machine_need_the_standard_library_alone(path: Path) -> None:
    roots = {
        alias.name.split(".")[0]
        for node in walk(path, ast.Import)
        for alias in node.names  # type: ignore[attr-defined]
    }
    for node in walk(path, ast.ImportFrom):
        assert node.level == 0, "a program is run by its path: it has no package"  # type: ignore[attr-defined]
        roots.add(node.module.split(".")[0])  # type: ignore[attr-defined]
    allowed = set(sys.stdlib_module_names) | SIBLINGS | EXTRA.get(path.name, set())
    assert roots <= allowed, roots - allowed


def at_import(node: ast.AST) -> Iterator[ast.Call]:
    """Calls that run when a module is imported: not those inside of functions."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            outside = [] if isinstance(child, ast.Lambda) else child.decorator_list
            parts = [*outside, *child.args.defaults, *[d for d in child.args.kw_defaults if d]]
            for part in parts:
                yield from at_import(ast.Expr(part))
            continue
        if isinstance(child, ast.If) and "__name__" in ast.unparse(child.test):
            continue
        if isinstance(child, ast.Call):
            yield child
        yield from at_import(child)


@every(PACKAGE)
def test_importing_does_nothing(path: Path) -> None:
    """No file, machine or network is touched before somebody asks for something."""
    called = {ast.unparse(call.func) for call in at_import(tree(path))}
    methods = {text for text in called if re.fullmatch(r"'[^']*'\.(join|split)", text)}
    assert called - methods <= PURE, called - PURE


@every([*PACKAGE, *PROGRAMS, *TASKS])
def test_modules_and_what_they_offer_are_described(path: Path) -> None:
    module = tree(path)
    assert ast.get_docstring(module)
    for node in module.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            assert ast.get_docstring(node), node.name


def test_every_setting_is_described() -> None:
    """group_data/all.py is the reference of settings: a comment beside or just above each."""
    path = PROJECT / "group_data/all.py"
    lines = path.read_text().splitlines()
    for key in settings_defaults(path):
        at = next(i for i, text in enumerate(lines) if re.match(rf"{key}\b", text))
        above = lines[at - 1]
        told = "  # " in lines[at] or (above.startswith("# ") and not above.startswith("# ---"))
        assert told, key


# --- the whole project ---

# In pieces, so that this file may be checked as well.
SWALLOWED = "|| " + "true"
REGISTRIES = [
    r"pypi\.(org|io)",
    r"pythonhosted\." + "org",
    r"(deb|security|snapshot)\.debian\." + "org",
    r"(archive|ports|security)\.ubuntu\." + "com",
    "npm" + r"js\.(org|com)",
    r"crates\." + "io",
]


def texts() -> Iterator[tuple[str, str]]:
    for path in tracked():
        data = path.read_bytes()
        if b"\0" not in data:
            yield name(path), data.decode()


def test_no_failure_is_swallowed() -> None:
    assert [place for place, text in texts() if SWALLOWED in text] == []


def test_no_registry_is_named() -> None:
    """pip and apt ask what the machine is set up to ask: an air gap names its own mirrors."""
    pattern = re.compile("|".join(REGISTRIES), re.I)
    this = name(Path(__file__))
    assert [p for p, text in texts() if p != this and pattern.search(text)] == []


def test_no_path_of_this_computer_is_in_a_file() -> None:
    home = str(Path.home())
    for place, text in texts():
        assert f"{PROJECT}/" not in text, place
        assert home == "/root" or f"{home}/" not in text, place


def test_tests_hide_no_failure() -> None:
    for path in sorted((PROJECT / "tests").rglob("*.py")):
        used = {text.rsplit(".", 1)[1] for text in attributes(path)}
        # The words are looked for here: this is what refuses them everywhere.
        assert not used & {"skip", "skipif", "xfail", "importorskip"}, name(path)
        for node in walk(path, ast.Assert):
            constant = isinstance(node.test, ast.Constant)  # type: ignore[attr-defined]
            assert not constant, f"{name(path)}:{node.lineno}"  # type: ignore[attr-defined]


def test_every_exception_to_a_tool_names_its_rule() -> None:
    bare = re.compile(r"#\s*noqa(?!: [A-Z])|#\s*type: ignore(?!\[)|#\s*shellcheck disable=all")
    this = name(Path(__file__))
    found = [p for p, text in texts() if p.endswith((".py", ".sh")) and bare.search(text)]
    assert [place for place in found if place != this] == []
