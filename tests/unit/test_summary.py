"""The end of a converge: the summary, the line that asks a server, how far a load has come."""

from __future__ import annotations

import dataclasses
import subprocess
from pathlib import Path
from typing import Any

import pytest

from sparkwright import summary
from sparkwright.endpoint import ask_line
from sparkwright.paths import PROJECT
from sparkwright.serve_watch import loading, read_probe
from tests.unit.machine_case import ITEM, data, item

LAPTOP = {"ssh_hostname": "10.0.0.1", "ssh_user": "spark"}


def found(kind: str, *whats: str, host: str = "spark-1") -> list[dict[str, str]]:
    return [{"kind": kind, "host": host, "what": what} for what in whats]


FIRST = [
    *found("changed", "user llm: does not exist", "a: missing", "b: missing", "c: missing"),
    *found("changed", "a: missing"),  # said twice: once is enough
    *found("started", "llm-tiny.service"),
    *found("accepted", "llm-tiny at port 8080"),
    *found("endpoint", ask_line(ITEM, data(**LAPTOP))),
    *found("changed", "user llm: does not exist", host="spark-2"),
    *found("note", "/srv/x: 5 bytes of an earlier download, not used; remove it yourself"),
]
MANY = [row for n in range(32) for row in (
    *found("changed", "a: missing", "b: missing", host=f"spark-{n:02}"),
    *found("started", "llm-tiny.service", host=f"spark-{n:02}"),
    *found("endpoint", f"curl http://10.0.0.{n}:8080", host=f"spark-{n:02}"),
    *found("note", f"note {n}", host=f"spark-{n:02}"))]  # fmt: skip
BROKEN = [*found("changed", "a: missing"), *found("problem", "llm-tiny.service: is failed")]


def test_the_text() -> None:
    parts = [line for rows in (FIRST, MANY, BROKEN) for line in [*summary.lines(rows), "---"]]
    text = "\n".join(parts) + "\n"
    assert text == (PROJECT / "tests/golden/operate/summary.txt").read_text()


def test_it_fits_a_screen() -> None:
    """Two lines are left: the count of operations and the shell's prompt."""
    two = [dict(row, host=f"spark-{i % 2}") for i, row in enumerate(MANY)]
    for rows in (FIRST, MANY, two):
        assert len(summary.lines(rows)) <= summary.SCREEN - 2


def test_it_is_quiet_when_nothing_changed() -> None:
    same = [row for row in FIRST if row["kind"] != "changed"]
    assert summary.lines(same) == []


# --- the line that asks ---

CASES: dict[str, tuple[dict[str, Any], dict[str, Any], list[str]]] = {
    "loopback": ({}, {}, ["ssh spark@10.0.0.1 \"curl -s http://127.0.0.1:8080/v1/chat/"]),
    "every address": ({"listen": "0.0.0.0"}, {}, ["curl -s http://10.0.0.1:8080/v1/"]),
    "its address": ({"listen": "10.9.9.9"}, {}, ["curl -s http://10.9.9.9:8080/v1/"]),
    "version 6": ({"listen": "::"}, {"ssh_hostname": "fd00::1"},
                  ["curl -s http://[fd00::1]:8080/v1/"]),
    "a key": ({"listen": "0.0.0.0", "api_key": "generate"}, {},
              ["-H @<(ssh spark@10.0.0.1 ", "sudo sed 's/^/Authorization: Bearer /' "
               "/etc/sparkwright/api-key"]),
    "a key on loopback": ({"api_key": "generate"}, {}, ["ssh spark@10.0.0.1 \"sudo sed ",
                                                        "api-key | curl -s http://127.0.0.1",
                                                        "-H @-\""]),
    "another port of ssh": ({}, {"ssh_port": 2222, "ssh_key": "/k y"},
                            ["ssh -i '/k y' -p 2222 spark@10.0.0.1 "]),
    "no account": ({}, {"ssh_user": None}, ["ssh 10.0.0.1 "]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_line_to_ask(name: str) -> None:
    changes, settings, parts = CASES[name]
    line = ask_line(dataclasses.replace(ITEM, **changes), data(**{**LAPTOP, **settings}))
    assert [part for part in parts if part not in line] == []
    assert subprocess.run(["bash", "-nc", line], check=False).returncode == 0


@pytest.mark.parametrize("name", ["loopback", "every address", "a key on loopback"])
def test_what_the_shells_make_of_it(name: str, tmp_path: Path) -> None:
    """Here with an ssh that runs the command itself, and a curl that says what it got."""
    (tmp_path / "ssh").write_text('#!/bin/sh\nshift\nexec sh -c "$*"\n')
    (tmp_path / "sudo").write_text("#!/bin/sh\necho 'Authorization: Bearer x'\n")
    (tmp_path / "curl").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    for program in tmp_path.iterdir():
        program.chmod(0o755)
    line = ask_line(dataclasses.replace(ITEM, **CASES[name][0]), data(**LAPTOP))
    done = subprocess.run(["bash", "-c", line], env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
                          capture_output=True, text=True, check=True)  # fmt: skip
    words = done.stdout.splitlines()
    assert words[1].endswith(":8080/v1/chat/completions")
    assert words[2:4] == ["-H", "Content-Type: application/json"]
    assert words[5] == ('{"model": "tiny", "messages": [{"role": "user", "content": '
                        '"Which model are you?"}]}')  # fmt: skip


# --- loads ---


@pytest.mark.parametrize(
    ("read", "line"),
    [
        ("rchar: 200\nwchar: 1\nrchar: 50\n", "loading for 5 s of at most 60 s, 25 %, "
         "0.00 of 0.00 GB, 0.0 MB/s, 15 s left"),
        ("", "loading for 5 s of at most 60 s"),
        ("rchar: 2000\n", "loading for 5 s of at most 60 s"),
    ],
)  # fmt: skip
def test_how_far_a_load_has_come(read: str, line: str) -> None:
    assert loading(ITEM, read, 5.0) == line


def test_a_recipe_without_a_model_has_no_bytes() -> None:
    assert loading(item("web", weights=None, files=()), "rchar: 5\n", 1.0).endswith("60 s")


def test_the_question_survives_a_unit_that_is_gone() -> None:
    argv = read_probe("no-such-unit.service")["argv"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.stdout == ""
