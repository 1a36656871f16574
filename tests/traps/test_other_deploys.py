"""verify.py and repair.py in pyinfra, on machines that are only answers: no other work is done."""

from __future__ import annotations

import json
from pathlib import Path

from .runs import Fakes, command

ONE, TWO = "@fake/spark-1", "@fake/spark-2"
AGENT = '"/opt/sparkwright/lib/weights.py", "status"'
LOST = {"ok": False, "manifest_digest": "feed", "missing": ["tiny.gguf"], "changed": [],
        "leftovers": {}}  # fmt: skip


def test_a_machine_that_cannot_be_judged_is_shown_as_failed(tmp_path: Path) -> None:
    """These fakes answer questions of a converge, not those of verify: that is no proof."""
    fakes = Fakes.write(tmp_path, {ONE: {}, TWO: {}})
    done = command("pyinfra", fakes.inventory, "verify.py", "-y", env=dict(fakes.env))
    assert done.returncode == 1
    for name in (ONE, TWO):
        assert f"look closer: sparkwright status --limit {name}" in done.stderr
    assert "Traceback" not in done.stderr
    assert fakes.executed() == []


def repaired(tmp_path: Path, *words: str, **mine: object) -> tuple[int, list[str], Fakes]:
    """(exit status, operations that would change something, fakes) of a repair."""
    fakes = Fakes.write(tmp_path, {ONE: mine})
    argv = (fakes.inventory, "repair.py", "--json", *words)
    done = command("pyinfra", *argv, env=dict(fakes.env))
    plan = json.loads(done.stdout)["plan"] if done.stdout else []
    pending = [op["name"] for op in plan if op["hosts_with_change"]]
    return done.returncode, pending, fakes


def test_a_repair_of_whole_weights_does_nothing(tmp_path: Path) -> None:
    code, pending, fakes = repaired(tmp_path, "-y")
    assert (code, pending, fakes.executed()) == (0, [], [])


def test_a_repair_fetches_weights_and_nothing_else(tmp_path: Path) -> None:
    answers = [[AGENT, {"rc": 0, "out": json.dumps(LOST)}],
               ["sysctl", {"values": {"vm.swappiness": "60"}}]]  # fmt: skip
    code, pending, _ = repaired(tmp_path, "--dry", answers=answers)
    assert (code, pending) == (0, ["weights | Have lab/a"])
