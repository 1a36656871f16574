"""What only asks a machine leaves nothing there: no bytecode beside our programs, no helper."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sparkwright import status_ask
from sparkwright.facts import Machine, reads
from sparkwright.paths import FILES, PROJECT

PROGRAMS = FILES / "opt/sparkwright/lib"
HOW = {"apply": False, "older_s": None, "want_free": None}


def asked(folder: Path, program: str) -> str:
    """The spec of a program that starts or imports others of ours, which lie in a folder."""
    lib, wanted = str(folder / "lib"), str(folder / f"weights/a/b/{'a' * 12}")
    if program == "probe.py":
        argv = ["python3", f"{lib}/weights.py", "status", "-"]
        return json.dumps([{"kind": "run", "argv": argv, "stdin": "{}"}])
    if program == "status_verify.py":
        unit = {"unit": "x.service", "ask": None, "env": {}, "deep": False,
                "weights": {"dir": wanted, "files": []}}  # fmt: skip
        return json.dumps({"lib": lib, "units": [unit], "fabric": None})
    Path(wanted).mkdir(parents=True, exist_ok=True)
    rows = {wanted: {"names": ["tiny"], "spec": {}}}
    return json.dumps({"root": str(folder / "weights"), "recipes": rows, "lib": lib, "pins": [],
                       "check": "fast", **HOW})  # fmt: skip


def compiled(folder: Path, command: str) -> list[str]:
    """Names of the programs whose bytecode is there after a command, run as on a machine."""
    shutil.copytree(PROGRAMS, folder / "lib", ignore=shutil.ignore_patterns("__pycache__"))
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    subprocess.run(["sh", "-c", command], env=env, capture_output=True, check=True)
    return [path.name for path in (folder / "lib").rglob("*.pyc")]


ASKING = ("probe.py", "status_verify.py", "weights_store.py", "weights_prune.py")


@pytest.mark.parametrize("program", ASKING)
def test_no_bytecode_is_kept(program: str, tmp_path: Path) -> None:
    command = reads(program, asked(tmp_path, program)).get_raw_value()
    assert compiled(tmp_path, command) == []


@pytest.mark.parametrize("program", ASKING)
def test_without_the_word_it_would_be(program: str, tmp_path: Path) -> None:
    command = reads(program, asked(tmp_path, program)).get_raw_value()
    assert compiled(tmp_path, command.replace("PYTHONDONTWRITEBYTECODE=1", "A=1", 1))


def test_facts_are_asked_so() -> None:
    made = status_ask.Program().command("status.py", "{}")
    assert made.get_raw_value() == reads("status.py", "{}").get_raw_value()


@pytest.mark.parametrize("locks", [False, True])
def test_a_converge_keeps_bytecode_once_it_holds_the_lock(locks: bool, tmp_path: Path) -> None:
    """Then it changes the machine anyway, and the next one starts sooner."""
    lib = tmp_path / "lib"
    run = ["python3", str(lib / "weights.py"), "status", "-"]
    specs = [
        {"kind": "lock", "do": "take" if locks else "release", "holder": {"run": "x"},
         "stale_s": 300, "folder": str(tmp_path / "run")},
        {"kind": "program", "argv": [str(lib / "weights.py"), "status", "-"], "stdin": "{}"},
    ]  # fmt: skip
    started = [{"kind": "run", "argv": run, "stdin": "{}"}]
    command = Machine().command(json.dumps(specs if locks else [*specs, *started]))
    assert bool(compiled(tmp_path, command.get_raw_value())) is locks


def test_nobody_else_makes_such_a_command() -> None:
    """Python is started over SSH in one place alone, where a program is run out of its text."""
    found = []
    for path in sorted((PROJECT / "sparkwright").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "StringCommand":
                words = [getattr(word, "value", "") for word in node.args]
                found += [path.name] if "python3" in words else []
    assert found == ["facts.py"]


def test_the_helper_for_a_password_is_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = [SimpleNamespace(name=name, connected=name != "off") for name in ("a", "off", "b")]
    gone: list[str] = []

    def remove(host: Any) -> None:
        gone.append(host.name)

    monkeypatch.setattr(status_ask, "remove_any_sudo_askpass_file", remove)
    status_ask.Fleet.of(None, hosts, 1.0).leave()
    assert gone == ["a", "b"]
