"""A machine that another converge holds: nothing of this run happens anywhere."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from tests.traps.runs import DRIFT, ONE, TWO, Fakes

HELD = {"run": "x", "user": "eve", "host": "far", "since": "noon", "pid": 7, "boot": "b"}
SAID = f"{ONE}: locked by eve@far since noon, whose converge (process 7) is not over"


def fakes(root: Path, *answers: list[Any]) -> Fakes:
    """Two machines that have something to do; the first answers so."""
    return Fakes.write(root, {ONE: {"answers": [*answers, *DRIFT]}, TWO: {"answers": DRIFT}})


def test_a_lock_that_is_lost_in_a_race_leaves_all_machines_alone(tmp_path: Path) -> None:
    answer = {"held": False, "by": HELD, "over": None}
    site = fakes(tmp_path, ['"kind": "lock"', answer])
    run = site.pyinfra("-y")
    assert run.returncode == 1
    assert site.executed() == []
    said = [row["what"] for row in site.findings() if row["kind"] == "problem"]
    assert any(what.startswith(SAID) for what in said)
    assert f"{TWO}: left alone, since {ONE} is locked: a run takes all its machines or none" in said


def test_a_lock_that_cannot_be_taken_is_that_machines_trouble(tmp_path: Path) -> None:
    site = fakes(tmp_path, ['"kind": "lock"', {"error": "OSError: no space left"}])
    run = site.pyinfra("-y", "--json")
    assert json.loads(run.stdout)["results"]["failed_hosts"] == [ONE]
    assert "its lock cannot be taken: OSError: no space left" in run.stderr


def test_preflight_names_it_and_a_dry_run_only_mentions_it(tmp_path: Path) -> None:
    record = json.dumps({**HELD, "renewed": time.time()})
    lock = ['"path": "/run/sparkwright/lock"', {"type": "file", "text": record}]
    site = fakes(tmp_path, lock)
    run = site.pyinfra("-y")
    assert run.returncode == 1
    assert site.executed() == []
    assert SAID in run.stderr.partition("preflight found 1 problem(s):")[2]
    run = site.pyinfra("--dry")
    assert run.returncode == 0, run.stderr
    assert SAID in run.stderr
