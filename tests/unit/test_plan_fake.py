"""Whole deploys by pyinfra's own command line, on machines that are only answers."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sparkwright.paths import PROJECT
from sparkwright.report import FINDINGS
from tests.unit.fake_site import SCENARIO, write_site

ONE, TWO = "@fake/spark-1", "@fake/spark-2"
INVENTORY = "from tests.unit.fake_machine import inventory as _i\nglobals().update(_i())\n"
UNIT = "/etc/systemd/system/llm-tiny.service"
SERVE = "serve | Run and ask, in turns"
AGENT = '"/opt/sparkwright/lib/weights.py", "status"'


@dataclasses.dataclass(frozen=True)
class Run:
    """What a run did.

    + commands: (machine, command) of everything executed, questions left out
    """

    rc: int
    out: str
    err: str
    findings: list[dict[str, str]]
    commands: list[tuple[str, str]]

    @property
    def result(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.out)
        return found

    def pending(self) -> list[str]:
        """Operations of a --dry run that would change a machine."""
        return [op["name"] for op in self.result["plan"] if op["hosts_with_change"]]

    def success(self, name: str) -> list[str]:
        """Operations that changed this machine."""
        operations = self.result["results"]["operations"]
        return [op["name"] for op in operations if name in op["success"]]

    def what(self, kind: str, name: str = ONE) -> list[str]:
        """Findings of one kind of one machine, each once."""
        rows = [r["what"] for r in self.findings if r["kind"] == kind and r["host"] == name]
        return list(dict.fromkeys(rows))

    def ran(self, name: str = ONE) -> list[str]:
        return [command for host, command in self.commands if host == name]


class Fleet:
    """Scenario files in a directory of the test's own."""

    def __init__(self, root: Path) -> None:
        self.root, self.site = root, write_site(root)
        (root / "fake_inventory.py").write_text(INVENTORY)

    def run(self, *words: str, hosts: dict[str, Any], env: dict[str, str] | None = None,
            **data: Any) -> Run:  # fmt: skip
        """`pyinfra … deploy.py --json WORDS` with these machines."""
        log, notes = self.root / "log", self.root / "findings"
        log.write_text("")
        notes.write_text("")
        scenario = {
            "hosts": hosts,
            "log": str(log),
            "data": {**self.site, "serve": ["tiny", {"recipe": "nap", "state": "standby"}], **data},
        }
        (self.root / "scenario.json").write_text(json.dumps(scenario))
        done = subprocess.run(
            [Path(sys.executable).with_name("pyinfra"), str(self.root / "fake_inventory.py"),
             "deploy.py", "--json", *words],
            cwd=PROJECT,
            env={**os.environ, "PYTHONPATH": str(PROJECT), SCENARIO: f"{self.root}/scenario.json",
                 FINDINGS: str(notes), "PYINFRA_PROGRESS": "off", **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )  # fmt: skip
        return Run(
            done.returncode,
            done.stdout,
            done.stderr,
            [json.loads(line) for line in notes.read_text().splitlines()],
            [tuple(json.loads(line)) for line in log.read_text().splitlines()],
        )


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return Fleet(tmp_path)


def test_a_converged_machine_has_no_changes(fleet: Fleet) -> None:
    run = fleet.run("-y", hosts={ONE: {}, TWO: {}})
    assert run.rc == 0, run.err
    totals = run.result["results"]["totals"]
    assert (totals["success"], totals["error"]) == (0, 0)
    assert totals["no_change"] == totals["hosts"] > 20
    assert {row["kind"] for row in run.findings} == {"endpoint"}  # how to ask what runs
    assert run.commands == []


def test_a_dry_run_of_a_converged_machine_has_no_changes(fleet: Fleet) -> None:
    run = fleet.run("--dry", hosts={ONE: {}}, api_key="generate")
    assert run.rc == 0, run.err
    assert run.pending() == []
    assert {row["kind"] for row in run.findings} <= {"endpoint"}


NEW = [
    ['"kind": "path"', {"type": "missing"}],
    ['"kind": "packages"', {"versions": {}}],
    ['"kind": "user"', {"exists": False}],
    ['"kind": "sysctl"', {"values": {"vm.swappiness": "60"}}],
    ['"kind": "listing"', {"paths": []}],
    ['"kind": "unit"', {"LoadState": "not-found", "ActiveState": "inactive"}],
    ["nvidia-smi", {"rc": 0, "out": "NVIDIA GB10, 12.1, 580.95.05\n"}],
    ["-printf", {"rc": 1, "out": ""}],
    ["[ ! -f", {"rc": 0, "out": ""}],
    ['"kind": "run"', {"rc": 127, "out": "", "err": "not found"}],
    ['"kind": "program"', {"rc": 1, "out": "", "err": "No module named"}],
]


def test_a_dry_run_of_a_new_machine_lists_everything(fleet: Fleet) -> None:
    """Nothing on it answers yet, and the plan must not stumble over that."""
    run = fleet.run("--dry", hosts={ONE: {"answers": NEW}})
    assert run.rc == 0, run.err
    names = [
        "base | Put our programs on the machine",
        "base | Create the service account and directories",
        "base | Keep the journal, with a limit",
        "base | Set kernel values",
        "base | Install packages",
        "CUDA | Have a CUDA toolkit",
        "llama.cpp | Build and switch",
        "weights | Install the Hub client",
        "weights | Have lab/a",
        "tiktoken | Seed the vocabulary",
        SERVE,
    ]
    assert run.pending() == names
    assert f"{UNIT}: missing, not a file" in run.what("drift")
    assert run.what("problem") == []
    assert run.commands == []


def drifts(fleet: Fleet, *answers: list[Any]) -> tuple[list[str], list[str]]:
    """(pending operations, what differs) of a --dry run."""
    run = fleet.run("--dry", hosts={ONE: {"answers": list(answers)}})
    assert run.rc == 0, run.err
    assert run.what("problem") == []
    return run.pending(), run.what("drift")


ROOT_FILE = {"type": "file", "owner": "root", "group": "root", "mode": "0644", "sha256": "0"}
DRIFTS: dict[str, tuple[list[Any], str, str]] = {
    "an edited unit": (
        [f'"path": "{UNIT}"', ROOT_FILE],
        SERVE,
        f"{UNIT}: content differs",
    ),
    "another build": (
        ['llama.cpp/current"', {"type": "link", "target": "other"}],
        "llama.cpp | Build and switch",
        "/opt/sparkwright/llama.cpp/current: points to other, not ",
    ),
    "a lost shard": (
        [AGENT, {"rc": 0, "out": json.dumps({
            "ok": False, "manifest_digest": "feed", "missing": ["tiny.gguf"], "changed": [],
            "leftovers": {}})}],
        "weights | Have lab/a",
        "/srv/sparkwright/weights/lab/a/0123456789ab: missing tiny.gguf",
    ),
    "an old toolkit": (
        ["nvcc", {"rc": 0, "out": "/usr/local/cuda/bin/nvcc 12.8.93\n"}],
        "CUDA | Have a CUDA toolkit",
        "CUDA toolkit: /usr/local/cuda/bin/nvcc is 12.8.93, 13.0 or newer is needed",
    ),
    "a vocabulary of the wrong hash": (
        ["o200k_base.tiktoken", ROOT_FILE],
        "tiktoken | Seed the vocabulary",
        "/srv/sparkwright/tiktoken/o200k_base.tiktoken: sha256 is 0, not ",
    ),
    "a unit no longer listed": (
        ['"grep", "-l"', {"rc": 0, "out": f"{UNIT}\n/etc/systemd/system/llm-old.service\n"}],
        SERVE,
        "llm-old.service: no longer in the fleet",
    ),
    "an answer to an earlier start": (
        ["accepted/llm-tiny.json",
         {"type": "file", "text": '{"invocation": "old", "asked": "2+2?"}'}],
        SERVE,
        "llm-tiny: has not answered its question since this start",
    ),
    "a program of ours": (
        ["lib/probe.py", ROOT_FILE],
        "base | Put our programs on the machine",
        "/opt/sparkwright/lib/probe.py: content differs",
    ),
    "a value": (
        ['"kind": "sysctl"', {"values": {"vm.swappiness": "60"}}],
        "base | Set kernel values",
        "sysctl vm.swappiness: 60, not 10",
    ),
}  # fmt: skip


FOLLOWS = {  # what else must be done then, and is named as well
    "another build": [SERVE],
    "an old toolkit": ["llama.cpp | Build and switch"],
}


@pytest.mark.parametrize("name", DRIFTS)
def test_a_drifted_machine_names_what_differs_and_nothing_else(fleet: Fleet, name: str) -> None:
    answer, operation, what = DRIFTS[name]
    pending, found = drifts(fleet, answer)
    assert pending == [operation, *FOLLOWS.get(name, [])]
    assert found[0].startswith(what)
    assert len(found) == 1 or name in FOLLOWS


ANSWER = {"content": "4", "wrong": [], "ready_s": 1.5, "ttft_s": 0.1, "total_s": 0.2}


def test_a_stale_process_is_restarted_asked_and_nothing_else(fleet: Fleet) -> None:
    stale = {
        "ActiveState": "active",
        "UnitFileState": "enabled",
        "digest": "old",
        "InvocationID": "beef",
    }
    answers = [
        ['"name": "llm-tiny.service"', stale],
        ['"python3", "/opt/sparkwright/lib/ask.py"', {"rc": 0, "out": json.dumps(ANSWER)}],
    ]
    run = fleet.run("-y", hosts={ONE: {"answers": answers}})
    assert run.rc == 0, run.err
    assert run.success(ONE) == [SERVE]
    assert run.what("accepted") == ["llm-tiny at port 8080"]
    assert "answered '4'; ready after 1.5 s, first token after 0.1 s" in run.err
    assert not any("llm-nap" in command for command in run.ran())
    restarts = [command for command in run.ran() if "restart" in command]
    assert len(restarts) == 1
    assert restarts[0].endswith("systemctl restart --no-block llm-tiny.service")
    assert not any("mv -fT" in c and UNIT in c for c in run.ran())


# --- one machine's trouble stays its own -------------------------------------------------------

STALE = [["lib/probe.py", ROOT_FILE]]  # something that the healthy machine has to do meanwhile
TROUBLES: dict[str, dict[str, Any]] = {
    # Not an answer at all: JSONDecodeError in the fact, within an operation of ours.
    "nonsense": {"nonsense": ["sysctl"]},
    # An answer of the wrong shape: KeyError, AttributeError or the like in a pure plan.
    "wrong shape": {"answers": [[AGENT, {"rc": 0, "out": "{}"}]]},
    "failing command": {"answers": STALE, "failing": ["mv -fT"]},
    # In a function that runs on the laptop while a start is followed.
    "failing start": {
        "answers": [
            ['"name": "llm-tiny.service"', {"ActiveState": "failed", "Result": "exit-code"}]
        ]
    },
}


@pytest.mark.parametrize("name", TROUBLES)
def test_trouble_of_one_machine_stays_its_own(fleet: Fleet, name: str) -> None:
    run = fleet.run("-y", hosts={ONE: TROUBLES[name], TWO: {"answers": STALE}})
    assert run.rc != 0
    results = run.result["results"]
    assert results["failed_hosts"] == [ONE]
    # The other one went on to its last operation.
    assert run.success(TWO) == ["base | Put our programs on the machine"]
    last = [op for op in results["operations"] if op["name"] == SERVE]
    assert [TWO in op["no_change"] for op in last] == [True]


def test_what_went_wrong_is_said(fleet: Fleet) -> None:
    run = fleet.run("-y", hosts={ONE: TROUBLES["failing start"], TWO: {}})
    assert run.what("problem") == ["llm-tiny.service: is failed (exit-code)"]
    assert "see `journalctl -u llm-tiny.service` on @fake/spark-1" in run.err
    assert "Traceback" not in run.err


# --- preflight ----------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["-y", "--dry"])
def test_one_bad_machine_stops_all_before_anything_changes(fleet: Fleet, word: str) -> None:
    bad = [["nvidia-smi", {"rc": 9, "out": "", "err": "no driver"}]]
    run = fleet.run(word, hosts={ONE: {"answers": STALE}, TWO: {"answers": bad}}, arch="riscv64")
    assert run.rc != 0
    assert run.commands == []
    lines = run.err.splitlines()
    start = next(i for i, line in enumerate(lines) if "preflight found 3 problem(s):" in line)
    hint = "set `arch` for a machine that is not a Spark"
    gpu = ("gpu: nvidia-smi does not show one: no driver; mend the driver (sparkwright never "
           "changes it), then run again")  # fmt: skip
    assert [line.strip() for line in lines[start + 1 : start + 5]] == [
        f"{ONE}: arch: is aarch64, not riscv64; {hint}",
        f"{TWO}: arch: is aarch64, not riscv64; {hint}",
        f"{TWO}: {gpu}",
        f"Nothing was changed on {ONE}, {TWO}.",
    ]


def test_a_lock_that_lacks_something_stops_before_anything_changes(fleet: Fleet) -> None:
    run = fleet.run("-y", hosts={ONE: {}}, lock_file="artifacts.lock.yaml")
    assert run.rc != 0
    assert run.commands == []
    assert "run: sparkwright lock" in run.err
    assert f"Nothing was changed on {ONE}." in run.err


def test_nonsense_in_preflight_is_a_problem_of_that_machine(fleet: Fleet) -> None:
    run = fleet.run("-y", hosts={ONE: {"nonsense": ["nvidia-smi"]}, TWO: {}})
    assert run.rc != 0
    assert run.commands == []
    assert f"{ONE}: JSONDecodeError" in run.err
    assert f"{TWO}: " not in run.err.partition("preflight found")[2]


# --- secrets ------------------------------------------------------------------------------------

TOKEN, PASSWORD = "hf_TOPSECRET", "sudo-TOPSECRET"


def test_no_secret_shows_anywhere(fleet: Fleet) -> None:
    """The token travels on standard input; the password is pyinfra's own affair."""
    gone = json.dumps({"ok": False, "manifest_digest": "", "missing": ["tiny.gguf"],
                       "changed": [], "leftovers": {}})  # fmt: skip
    answers = [
        [AGENT, {"rc": 0, "out": gone}],
        ['"name": "sparkwright-weights', {"ActiveState": "inactive"}],
        ['"argv": ["journalctl"', {"rc": 0, "out": "the log\n"}],
    ]
    data = {"_sudo_password": PASSWORD, "api_key": "generate"}
    run = fleet.run("-y", "-vv", hosts={ONE: {"answers": answers, "data": data}},
                    env={"HF_TOKEN": TOKEN})  # fmt: skip
    assert run.rc != 0  # the job never leaves its mark: there is no machine
    assert any("weights.py fetch" in command for command in run.ran())
    assert any("/secret" in command for command in run.ran())
    said = [run.out, run.err, json.dumps(run.findings), *run.ran()]
    for text in said:
        assert TOKEN not in text
        assert PASSWORD not in text
