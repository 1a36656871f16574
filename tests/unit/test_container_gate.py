"""container_gate.py around a container's life, with a `docker` that is a script."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.unit.fake_docker import command
from tests.unit.machine_case import program

GATE = program("container_gate")
NONE = "echo 'Error: No such container: llm-x' >&2; exit 1"
OURS = 'case "$2" in inspect) echo 1 ;; esac'
FOREIGN = "echo '<no value>'"
DOWN = "echo 'Cannot connect to the Docker daemon' >&2; exit 1"
ASKED = 'container inspect --format {{index .Config.Labels "sparkwright"}} llm-x'
CANNOT = (
    "container_gate: docker cannot be asked: Cannot connect to the Docker daemon; see: systemctl"
)


@pytest.mark.parametrize(
    ("docker", "action", "code", "calls", "said"),
    [
        (NONE, "clear", 0, [ASKED], ""),
        (OURS, "clear", 0, [ASKED, "container rm --force llm-x"],
         "container_gate: llm-x: a container was left from an earlier start; it is removed"),
        (FOREIGN, "clear", 1, [ASKED],
         "container_gate: llm-x: a container of that name is not ours; rename or remove it"),
        (DOWN, "clear", 1, [ASKED], CANNOT),
        (NONE, "stop", 0, [ASKED], ""),
        (OURS, "stop", 0, [ASKED, "stop -t 60 llm-x"], ""),
        (FOREIGN, "stop", 0, [ASKED], ""),
        (DOWN, "stop", 0, [ASKED], ""),
        (NONE, "remove", 0, [ASKED], ""),
        (OURS, "remove", 0, [ASKED, "container rm --force llm-x"],
         "container_gate: llm-x: its client is gone and the container was not; it is removed"),
        (FOREIGN, "remove", 0, [ASKED], ""),
        (DOWN, "remove", 0, [ASKED], ""),
    ],
)  # fmt: skip
def test_each_action(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    docker: str, action: str, code: int, calls: list[str], said: str,
) -> None:  # fmt: skip
    log = command(tmp_path / "bin", docker)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    assert GATE.main([action, "--name", "llm-x", "--grace-s", "60"]) == code
    assert log.read_text().splitlines() == calls
    out = capsys.readouterr().out
    assert out.startswith(said) if said else out == ""


def test_a_container_that_cannot_be_removed_stops_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command(tmp_path / "bin", 'case "$2" in inspect) echo 1 ;; *) echo busy >&2; exit 1 ;; esac')
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    assert GATE.main(["clear", "--name", "llm-x"]) == 1
    assert "llm-x: not removed: busy" in capsys.readouterr().out


def test_an_engine_that_hangs_holds_nothing_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command(tmp_path / "bin", "exec sleep 60")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.setattr(GATE, "ANSWER_S", 0.2)
    assert GATE.main(["clear", "--name", "llm-x"]) == 1
    assert "docker did not answer within 0.2 s" in capsys.readouterr().out
