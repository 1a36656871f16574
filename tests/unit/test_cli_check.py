"""check and converge: what a pyinfra run means, and that nothing is silently passed over."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from sparkwright import cli, cli_check, cli_converge, pyinfra_run
from sparkwright.errors import SparkwrightError
from sparkwright.pyinfra_run import Outcome

QUIET = {"name": "Install", "hosts_with_change": []}
LOUD = {"name": "Install", "hosts_with_change": ["spark-1"]}


def finding(kind: str, what: str = "unit differs", host: str = "spark-1") -> dict[str, str]:
    return {"kind": kind, "host": host, "what": what}


def outcome(
    *findings: dict[str, str], plan: Sequence[dict[str, Any]] = (QUIET,), rc: int = 0, log: str = ""
) -> Outcome:
    return Outcome(rc, {"plan": list(plan)}, list(findings), log)


ROWS: dict[str, tuple[Outcome, int, list[str]]] = {
    "in sync": (outcome(), 0, ["in sync"]),
    "notes are no drift": (outcome(finding("note")), 0, ["in sync"]),
    "drift": (
        outcome(finding("drift"), finding("drift", "port", "spark-2"), plan=[QUIET, LOUD]),
        1,
        ["spark-1: unit differs", "spark-2: port", "2 difference(s); `sparkwright converge` mends "
         "them"],
    ),
    "drift is said once": (
        outcome(finding("drift"), finding("drift"), plan=[LOUD]),
        1,
        ["spark-1: unit differs", "1 difference(s); `sparkwright converge` mends them"],
    ),
    "an operation that would change": (
        outcome(plan=[QUIET, LOUD]), 1, ["0 difference(s); `sparkwright converge` mends them"],
    ),
    "drift without a pending operation": (outcome(finding("drift")), 1, ["spark-1: unit differs",
        "1 difference(s); `sparkwright converge` mends them"]),
    "a problem outweighs drift": (
        outcome(finding("drift"), finding("problem", "spark-1: sudo: no"), plan=[LOUD]),
        2,
        ["spark-1: unit differs", "spark-1: sudo: no", "could not judge everything"],
    ),
    "aborted": (
        Outcome(1, None, [], "--> Connecting\nError: refused\n"),
        2,
        ["--> Connecting\nError: refused", "could not judge everything"],
    ),
    "no object": (Outcome(0, None, [], "x"), 2, ["x", "could not judge everything"]),
    "a failing status": (outcome(rc=1, log="a machine is off"), 2, ["a machine is off",
        "could not judge everything"]),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_verdict_and_report(name: str) -> None:
    found, code, lines = ROWS[name]
    assert cli_check.verdict(found) == code
    assert cli_check.lines(found, code) == lines


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Arguments of each run; the outcome of the first entry is what it gives."""
    asked: list[Any] = [outcome()]

    def run(words: Sequence[str], quiet: bool, inventory: str = "inventory.py") -> Outcome:
        asked.append((list(words), quiet, inventory))
        given: Outcome = asked[0]
        return given

    monkeypatch.setattr(pyinfra_run, "run", run)
    return asked


@pytest.mark.parametrize("name", ROWS)
def test_check_exits_and_prints(
    runs: list[Any], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found, code, lines = ROWS[name]
    runs[0] = found
    assert cli.main(["check"]) == code
    out, err = capsys.readouterr()
    assert (err if code == 2 else out) == "\n".join(lines) + "\n"
    assert (out if code == 2 else err) == ""
    assert runs[1] == (["--dry"], True, "inventory.py")


@pytest.mark.parametrize("name", ROWS)
def test_check_as_json(runs: list[Any], name: str, capsys: pytest.CaptureFixture[str]) -> None:
    found, code, _ = ROWS[name]
    runs[0] = found
    assert cli.main(["check", "--json"]) == code
    said = json.loads(capsys.readouterr().out)
    assert said["state"] == ["in_sync", "drift", "error"][code]
    assert said["drift"] == found.of("drift")
    assert said["problems"] == found.of("problem")
    assert said["log"] == (found.log if code == 2 else "")


def test_words_reach_pyinfra(runs: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyinfra_run, "check_limits", lambda options: None)
    cli.main(["check", "--limit", "a", "--limit", "b", "--data", "verify=deep",
              "--inventory", "x.py"])  # fmt: skip
    words = ["--dry", "--limit", "a", "--limit", "b", "--data", "verify=deep"]
    assert runs[1] == (words, True, "x.py")


def converged(changes: int, failed: Sequence[str] = (), rc: int = 0) -> Outcome:
    operations = [{"success": ["spark-1"] * changes, "no_change": []}]
    result = {"results": {"operations": operations, "failed_hosts": list(failed)}}
    found = [finding("accepted", "llm-x at port 8080"), finding("endpoint", "curl x")]
    found += [finding("changed", "a: differs")] * bool(changes)
    found += [finding("problem", "it broke")] * bool(failed)
    return Outcome(rc, result, found, "")


ANSWERED = (
    "spark-1: 1 difference(s) mended; llm-x at port 8080 answered its question\n  a: differs\n"
    "ask it:\n  curl x\n"
)
NEXT = "how it runs: sparkwright status\n"
LOOK = "look closer: sparkwright doctor --limit spark-1\n"
BAD = f"{LOOK}2 operation(s) changed something; the run FAILED\n"


@pytest.mark.parametrize(
    ("found", "code", "text"),
    [
        (converged(0), 0, "0 operation(s) changed something\n"),
        (converged(3), 0, f"{ANSWERED}{NEXT}3 operation(s) changed something\n"),
        (converged(2, ["spark-1"]), 2, f"it broke\n{ANSWERED}{BAD}"),
        (converged(0, rc=1), 2, "0 operation(s) changed something; the run FAILED\n"),
        (Outcome(0, None, [], ""), 2, "0 operation(s) changed something; the run FAILED\n"),
    ],
)
def test_converge_is_honest(
    runs: list[Any], capsys: pytest.CaptureFixture[str], found: Outcome, code: int, text: str
) -> None:
    runs[0] = found
    assert cli.main(["converge"]) == code
    assert capsys.readouterr().out == text
    assert runs[1] == (["-y"], False, "inventory.py")
    assert cli.main(["converge", "--json"]) == code
    said = json.loads(capsys.readouterr().out)
    assert said["failed"] is (code == 2)
    assert said["changed"] == cli_converge.changed(found)
    assert said["endpoints"] == found.of("endpoint")


def test_a_problem_of_the_users_files_is_one_message(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: Any, **__: Any) -> Outcome:
        raise SparkwrightError("sparks.yaml: sparks: is empty")

    monkeypatch.setattr(pyinfra_run, "run", broken)
    assert cli.main(["check"]) == 2
    assert capsys.readouterr().err == "sparks.yaml: sparks: is empty\n"


@pytest.mark.parametrize("words", [[], ["chek"], ["check", "--no-such-option"]])
def test_unknown_words_are_refused(words: list[str]) -> None:
    with pytest.raises(SystemExit) as end:
        cli.main(words)
    assert end.value.code == 2


@pytest.mark.parametrize("command", ["check", "converge", "lock"])
def test_help_of_every_command(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        cli.main([command, "--help"])
    assert end.value.code == 0
    assert f"usage: sparkwright {command}" in capsys.readouterr().out


# --- with the real pyinfra, on its @fake connector ----------------------------------------------


@pytest.fixture
def inventory(tmp_path: Path) -> str:
    """Two machines that exist only in pyinfra's @fake connector."""
    path = tmp_path / "fake_inventory.py"
    path.write_text(
        'rack = [("@fake/spark-1", {"fake_delay": 0, "fake_delay_jitter": 0})]\n'
        'desk = [("@fake/spark-2", {"fake_delay": 0, "fake_delay_jitter": 0})]\n'
    )
    return str(path)


def test_a_limit_that_names_nothing_is_refused(
    inventory: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """pyinfra itself does nothing then, and calls that success."""
    words = ["check", "--inventory", inventory, "--limit", "rak", "--limit", "@fake/spark-3"]
    assert cli.main(words) == 2
    assert capsys.readouterr().err.splitlines() == [
        "--limit: no spark or group named rak; did you mean rack?",
        "--limit: no spark or group named @fake/spark-3; did you mean @fake/spark-2?",
    ]


def test_machines_that_answer_nonsense_are_an_error(
    inventory: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["check", "--inventory", inventory, "--limit", "rack", "--json"]) == 2
    said = json.loads(capsys.readouterr().out)
    assert said["state"] == "error"
    whats = [row["what"] for row in said["problems"]]
    assert "@fake/spark-1: python3: not found; install it: sudo apt-get install python3" in whats
    assert not any("spark-2" in what for what in whats)
    assert "Nothing was changed on @fake/spark-1." in said["log"]


def test_a_broken_inventory_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "broken.py"
    path.write_text("raise SystemExit('sparks.yaml: sparks: is empty')\n")
    assert cli.main(["check", "--inventory", str(path)]) == 2
    assert "sparks.yaml: sparks: is empty" in capsys.readouterr().err


def test_a_pyinfra_that_a_signal_ended_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says nothing of its own then, and neither did we."""
    program = tmp_path / "pyinfra"
    program.write_text("#!/bin/sh\nkill -SEGV $$\n")
    program.chmod(0o755)
    monkeypatch.setattr(pyinfra_run.sys, "executable", str(tmp_path / "python"))
    outcome = pyinfra_run.run([], quiet=True)
    shown = cli_check.lines(outcome, cli_check.verdict(outcome))
    assert shown[0].startswith("pyinfra: was ended by SIGSEGV; ")
