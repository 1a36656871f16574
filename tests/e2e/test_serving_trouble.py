"""A server that does not come up or answers wrong: the run fails, says why, and asks again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import refusing, support
from tests.e2e.refusing import LLAMA, Bench, Fault, serving
from tests.lab.lab import start_lab

pytestmark = pytest.mark.lab

UNIT = "llm-test.service"
CAUSE = (
    "the model answers, but not this: wrong weights, wrong chat template or a broken kernel "
    "(llama.cpp without 121a, vLLM Marlin below 0.23 on SM121)"
)
BACKEND = "another backend runs than the recipe wants: look at the build's flags and the driver"


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with start_lab(machines=2) as lab:
        yield Bench(lab, tmp_path_factory.mktemp("serving"))


def fleet(bench: Bench, **changes: Mapping[str, Any] | int) -> Path:
    """The first machine serves the tiny llama as recipe `test`, with these changes."""
    return bench.fleet(Fault(recipes={"test": {"port": 9101, **changes}}), serving("test"))


def said(text: str, line: str) -> bool:
    """Whether a line begins so; behind it stands the command that shows more."""
    return any(have.startswith(line) for have in text.splitlines())


def start(bench: Bench) -> str:
    return bench.one.ssh(f"systemctl show -p InvocationID --value {UNIT}").stdout.strip()


def test_a_flag_that_the_build_does_not_know_never_reaches_the_unit(bench: Bench) -> None:
    """Asked of the installed llama-server itself, whose --help is kept beside it."""
    done = refusing.run(fleet(bench, flags={"no-such-flag": True}))
    first, second = done.stdout.splitlines()[:2]
    assert first.startswith("llm-test: --no-such-flag: unknown to llama.cpp ")
    assert second == "llm-test: was not touched"
    assert bench.one.ssh(f"ls /etc/systemd/system/{UNIT}", check=False).stdout == ""


def test_a_value_that_the_server_refuses(bench: Bench) -> None:
    done = refusing.run(fleet(bench, flags={"threads": "many"}))
    assert done.stdout.splitlines()[0] == f"{UNIT}: is activating (exit-code)"
    assert f"{UNIT}: is activating (exit-code); its journal:" in done.stderr
    assert 'error while handling argument "--threads"' in done.stderr
    assert f"see `journalctl -u {UNIT}` on spark-1" in done.stderr


def test_an_answer_that_is_not_the_expected_one_is_asked_for_again(bench: Bench) -> None:
    wrong = fleet(bench, acceptance={"expect": "CPU"})
    line = f"{UNIT}: not accepted: content 'SPARK' lacks 'CPU'; likely cause: {CAUSE}"
    done = refusing.run(wrong)
    assert said(done.stdout, line), done.stdout + done.stderr
    before = start(bench)
    # The unit is as wanted now, and yet the run is not over before it answered.
    code, report = support.check(wrong)
    assert code == 1, report
    assert support.drift_of(report) == ["llm-test: has not answered its question since this start"]
    assert said(refusing.run(wrong).stdout, line)
    assert start(bench) == before
    summary = support.converge(fleet(bench))
    assert [row["what"] for row in summary["accepted"]] == ["llm-test at port 9101"]
    assert start(bench) == before


def test_another_expectation_of_the_same_start_is_asked_for(bench: Bench) -> None:
    support.converge(fleet(bench))
    done = refusing.run(fleet(bench, acceptance={"expect": "CPU"}))
    assert "not accepted: content 'SPARK' lacks 'CPU'" in done.stdout


def test_a_log_that_lacks_a_line_or_holds_a_bad_one(bench: Bench) -> None:
    declared = {"log_must": ["ggml_cuda_init: found"], "log_must_not": ["model loaded"]}
    done = refusing.run(fleet(bench, acceptance={**declared, "question": "And now?"}))
    said = next(x for x in done.stdout.splitlines() if x.startswith(f"{UNIT}: not accepted: "))
    assert (
        "the journal since this start has no line like 'ggml_cuda_init: found'; likely cause: "
        + BACKEND
    ) in said
    assert "the journal says '" in said


def test_one_machine_that_is_off_leaves_the_other_to_converge(bench: Bench) -> None:
    two = bench.lab.machines[1]
    two.power_off()
    real = bench.one.ssh("uname -m").stdout.strip()
    entry = {"address": two.address, "settings": {"arch": real}}
    both = bench.fleet(
        Fault(recipes={"test": {"port": 9102}}),
        serving("test"),
        Fault(fleet=lambda text: text["sparks"].update({"spark-2": entry})),
    )
    done = support.sparkwright(both, "converge", "--json")
    summary = json.loads(done.stdout)
    assert done.returncode == 2
    assert summary["failed"]
    assert [row["host"] for row in summary["accepted"]] == ["spark-1"]
    assert "[spark-2] Could not connect" in summary["log"]
    assert support.ask(bench.one, 9102, "tiny-llama").strip() == "SPARK"


def test_what_does_not_run_any_more_leaves_nothing_behind(bench: Bench) -> None:
    support.converge(bench.fleet())
    left = bench.one.ssh("ls /etc/systemd/system/llm-*.service").stdout.split()
    assert left == [f"/etc/systemd/system/llm-{LLAMA}.service"]
