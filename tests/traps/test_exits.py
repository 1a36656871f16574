"""Exit statuses and options: a run that did nothing or failed never looks like one that worked."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from sparkwright.paths import PROJECT
from tests.traps.runs import BIN, DRIFT, NO_GPU, ONE, TWO, Fakes, command

# Nothing of these may ever be contacted: 192.0.2.0/24 is for documentation (RFC 5737).
FLEET = """
defaults: {ssh: {user: me, known_hosts: known_hosts}}
sparks:
  spark-1: {address: 192.0.2.1, groups: [rack-a]}
  spark-2: {address: 192.0.2.2}
"""


@pytest.fixture
def fleet(tmp_path: Path) -> dict[str, str]:
    """The environment that names a fleet file."""
    (tmp_path / "known_hosts").touch()
    (tmp_path / "sparks.yaml").write_text(FLEET)
    return {"SPARKS_FILE": str(tmp_path / "sparks.yaml")}


LIMITS = {
    "a typo": (["--limit", "spark-l"], "--limit: no spark or group named spark-l; did you mean"),
    "one of two": (["--limit", "spark-1", "--limit", "nobody"], "no spark or group named nobody"),
    # pyinfra compares patterns with host names only.
    "a pattern of groups": (["--limit", "rack-*"], "no spark or group named rack-*"),
}
EXCLUDES = {
    "exclude a typo": (["--exclude", "spark-l"], "--exclude: no spark or group named spark-l"),
    "exclude all": (["--exclude", "sparks"], "--exclude: leaves no spark at all"),
    "no-wait": (["--no-wait"], "--no-wait: pyinfra then exits with 0 although machines failed"),
}


@pytest.mark.parametrize("case", [*LIMITS, *EXCLUDES])
def test_pyinfra_itself_refuses_an_option_with_which_it_would_do_nothing(
    fleet: dict[str, str], case: str
) -> None:
    words, said = {**LIMITS, **EXCLUDES}[case]
    run = command("pyinfra", "inventory.py", "deploy.py", "-y", *words, env=fleet)
    assert run.returncode == 1, run.stderr
    assert said in run.stderr
    assert "Nothing was contacted." in run.stderr
    assert "Connecting" not in run.stderr


@pytest.mark.parametrize("verb", ["check", "converge"])
@pytest.mark.parametrize("case", [*LIMITS, "exclude a typo", "exclude all"])
def test_our_commands_refuse_a_limit_that_names_nobody(
    fleet: dict[str, str], verb: str, case: str
) -> None:
    words, said = {**LIMITS, **EXCLUDES}[case]
    run = command("sparkwright", verb, *words, env=fleet)
    assert run.returncode == 2
    assert said in run.stderr
    assert run.stdout == ""


@pytest.mark.parametrize("name", ["spark-1", "spark-*", "rack-a", "sparks", "inventory", "all"])
def test_every_name_that_pyinfra_knows_is_taken(fleet: dict[str, str], name: str) -> None:
    words = ["inventory.py", "debug-inventory", "--json", "--limit", name]
    run = command("pyinfra", *words, env=fleet)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)


def test_our_own_check_of_limits_takes_groups_too(tmp_path: Path) -> None:
    fakes = Fakes.write(tmp_path, {ONE: {}, TWO: {}})
    for name in ("sparks", "all", "*spark-2"):
        run = fakes.sparkwright("check", "--limit", name)
        assert (run.returncode, run.stdout.strip()) == (0, "in sync"), run.stderr


def test_pending_changes_are_not_exit_0(tmp_path: Path) -> None:
    fakes = Fakes.write(tmp_path, {ONE: {}, TWO: {"answers": DRIFT}})
    run = fakes.sparkwright("check")
    assert run.returncode == 1, run.stderr
    assert f"{TWO}: sysctl vm.swappiness: 60, not 10" in run.stdout
    assert fakes.executed() == []
    assert fakes.sparkwright("check", "--limit", ONE).returncode == 0


@pytest.mark.parametrize("word", ["--json", None])
def test_an_aborted_converge_says_so(tmp_path: Path, word: str | None) -> None:
    """pyinfra --json prints nothing at all when it aborts."""
    fakes = Fakes.write(tmp_path, {ONE: {"answers": NO_GPU}})
    plain = fakes.pyinfra("-y", "--json")
    assert (plain.returncode, plain.stdout) == (1, "")
    run = fakes.sparkwright("converge", *([word] if word else []))
    assert run.returncode == 2
    if word:
        summary = json.loads(run.stdout)
        assert summary["failed"]
        assert summary["changed"] == 0
        assert "nvidia-smi does not show one" in summary["problems"][0]["what"]
        assert "Nothing was changed" in summary["log"]
    else:
        assert "the run FAILED" in run.stdout
        assert "nvidia-smi does not show one" in run.stdout


@pytest.mark.parametrize("verb", ["check", "converge"])
def test_an_inventory_that_does_not_load_is_an_error_of_both(tmp_path: Path, verb: str) -> None:
    env = {"SPARKS_FILE": str(tmp_path / "absent.yaml")}
    run = command("sparkwright", verb, "--json", env=env)
    assert run.returncode == 2
    assert "absent.yaml" in json.loads(run.stdout)["log"]


def test_a_failed_machine_is_not_exit_0(tmp_path: Path) -> None:
    hosts = {ONE: {"answers": DRIFT, "failing": ["sysctl -q -w"]}, TWO: {"answers": DRIFT}}
    run = Fakes.write(tmp_path, hosts).sparkwright("converge")
    assert run.returncode == 2
    assert run.stdout.strip().endswith("the run FAILED")


def test_an_exception_in_an_operation_stops_only_its_machine(tmp_path: Path) -> None:
    hosts = {ONE: {"nonsense": ["sysctl"]}, TWO: {"answers": DRIFT}}
    fakes = Fakes.write(tmp_path, hosts)
    run = fakes.pyinfra("-y", "--json")
    assert run.returncode == 1
    results = json.loads(run.stdout)["results"]
    assert results["failed_hosts"] == [ONE]
    done = {op["name"]: [*op["success"], *op["no_change"]] for op in results["operations"]}
    assert TWO in done["serve | Run and ask, in turns"]
    assert ONE not in done["serve | Run and ask, in turns"]
    assert "base | Set kernel values" in [o["name"] for o in results["operations"] if o["success"]]


SLOW = "from pathlib import Path\nimport time\nPath({marker!r}).touch()\ntime.sleep(100)\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_is_not_exit_0_and_ends_pyinfra(
    tmp_path: Path, number: signal.Signals
) -> None:
    """pyinfra exits with 0 after Ctrl-C."""
    marker, slow = tmp_path / "marker", tmp_path / "slow.py"
    slow.write_text(SLOW.format(marker=str(marker)))
    argv = [str(BIN / "sparkwright"), "converge", "--inventory", str(slow)]
    run = subprocess.Popen(argv, cwd=PROJECT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                           stderr=subprocess.PIPE, text=True, start_new_session=True)  # fmt: skip
    end = time.monotonic() + 60
    while not marker.exists():
        assert time.monotonic() < end
        time.sleep(0.1)
    # A terminal sends SIGINT to the whole group; a supervisor sends SIGTERM to the program alone.
    (os.killpg if number == signal.SIGINT else os.kill)(run.pid, number)
    _, said = run.communicate(timeout=30)
    assert run.returncode == 130
    assert "the next run joins them" in said
    with pytest.raises(ProcessLookupError):
        os.killpg(run.pid, 0)
