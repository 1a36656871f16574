"""Questions that are asked once, or line by line of a probe that stays; and programs inside it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from sparkwright.facts import Machine, programs, talk

Spec = Mapping[str, Any]
ECHO = """
import os, sys
def main(argv):
    text = sys.stdin.read()
    print(argv, len(text), os.geteuid(), os.getgroups(), os.getcwd())
    print("to the other", file=sys.stderr)
    return len(argv)
"""
ODD = {
    "exits": ("import sys\ndef main(argv):\n    sys.exit(3)", 3, ""),
    "raises": ("def main(argv):\n    raise ValueError('no')", 1, "ValueError: no\n"),
    "is killed": ("import os\ndef main(argv):\n    os.kill(os.getpid(), 9)", -9, ""),
    "does not compile": ("def main(", 1, "SyntaxError: "),
    "has no main": ("", 1, "AttributeError: "),
    "says why it exits": ("import sys\ndef main(argv):\n    sys.exit('why')", 1, ""),
}


class Stays:
    """A probe that stays, asked as the laptop does."""

    def __init__(self) -> None:
        words = ["sh", "-c", talk().get_raw_value()]
        self.process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        assert self.process.stdin
        self.process.stdin.write(programs() + "\n")

    def ask(self, *specs: Spec) -> list[dict[str, Any]]:
        """Answers to one line."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps(specs) + "\n")
        states: list[dict[str, Any]] = json.loads(self.process.stdout.readline())
        return states


@pytest.fixture
def stays() -> Iterator[Stays]:
    made = Stays()
    yield made
    assert made.process.stdin
    made.process.stdin.close()
    assert made.process.wait(30) == 0  # the end of the questions is its end
    assert made.process.stdout
    made.process.stdout.close()


def program(place: Path, text: str, *words: str, **more: object) -> Spec:
    """A question that runs a program of the test's own."""
    place.write_text(text)
    return {"kind": "program", "argv": [str(place), *words], **more}


def test_each_line_is_answered_from_the_machine_as_it_is_then(stays: Stays, tmp_path: Path) -> None:
    spec = {"kind": "path", "path": str(tmp_path / "file"), "text": True}
    assert stays.ask(spec) == [{"type": "missing"}]
    (tmp_path / "file").write_text("now")
    assert stays.ask(spec, spec)[1]["text"] == "now"
    assert stays.ask() == []


def test_no_list_of_processes_shows_more_than_its_start(stays: Stays) -> None:
    stays.ask()
    shown = subprocess.run(["ps", "-o", "args=", "-p", str(stays.process.pid)],
                           capture_output=True, text=True, check=True).stdout  # fmt: skip
    assert "python3" in shown
    assert len(shown) < 400


def test_a_command_does_not_read_the_next_question(stays: Stays) -> None:
    assert stays.ask({"kind": "run", "argv": ["cat"]})[0] == {"rc": 0, "out": "", "err": ""}
    assert stays.ask({"kind": "run", "argv": ["cat"], "stdin": "x"})[0]["out"] == "x"


def test_a_question_that_fails_ends_nothing(stays: Stays) -> None:
    assert "error" in stays.ask({"kind": "path", "path": "/" + "x" * 300})[0]
    assert stays.ask({"kind": "host"})[0]["euid"] == os.geteuid()


def test_a_program_runs_inside(stays: Stays, tmp_path: Path) -> None:
    spec = program(tmp_path / "echo_it.py", ECHO, "a", "b", stdin="x" * 300_000)
    [state] = stays.ask(spec)
    assert (state["rc"], state["err"]) == (2, "to the other\n")
    assert state["out"].startswith("['a', 'b'] 300000 ")
    assert state["out"].endswith(" /\n")
    assert stays.ask(program(tmp_path / "echo_it.py", ECHO))[0]["rc"] == 0


def test_a_program_runs_as_another_account(stays: Stays, tmp_path: Path) -> None:
    """As root it becomes that one; nobody else can, and it does not run as who asks instead."""
    [state] = stays.ask(program(tmp_path / "whose.py", ECHO, user="nobody"))
    if os.geteuid() == 0:
        assert state["out"].startswith("[] 0 65534 [65534]")
    else:
        assert (state["out"], state["err"][:15]) == ("", "PermissionError")
    assert stays.ask({"kind": "host"})[0]["euid"] == os.geteuid()


@pytest.mark.parametrize("name", ODD)
def test_a_program_that_ends_oddly_ends_alone(name: str, stays: Stays, tmp_path: Path) -> None:
    text, code, said = ODD[name]
    [state] = stays.ask(program(tmp_path / "odd_one.py", text))
    assert (state["rc"], state["out"]) == (code, "")
    assert state["err"].startswith(said)
    assert stays.ask({"kind": "host"})[0]["arch"]


def test_an_absent_program_says_so(stays: Stays) -> None:
    [state] = stays.ask({"kind": "program", "argv": ["/nonexistent/weights.py", "status"]})
    assert (state["rc"], state["out"]) == (1, "")
    assert state["err"] == "ModuleNotFoundError: No module named 'weights'\n"


def test_a_program_is_read_anew_each_time(stays: Stays, tmp_path: Path) -> None:
    """A converge replaces it, and asks it again."""
    for code in (4, 5):
        text = f"def main(argv):\n    return {code}"
        assert stays.ask(program(tmp_path / "changes.py", text))[0]["rc"] == code


def test_asked_once_it_says_the_same(tmp_path: Path) -> None:
    specs = [program(tmp_path / "once.py", ECHO, "a"), {"kind": "path", "path": str(tmp_path)}]
    words = ["sh", "-c", Machine().command(json.dumps(specs)).get_raw_value()]
    done = subprocess.run(words, capture_output=True, text=True, check=True, stdin=subprocess.PIPE)
    states = Machine().process(done.stdout.splitlines())
    assert [states[0]["rc"], states[1]["type"]] == [1, "dir"]


def test_nothing_beside_it_is_imported(tmp_path: Path) -> None:
    """A json.py where somebody logs in is not ours to run as root."""
    (tmp_path / "json.py").write_text("raise SystemExit(9)")
    words = ["sh", "-c", Machine().command('[{"kind": "host"}]').get_raw_value()]
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, check=True)
