"""Gauges of a check: who could not be asked is never 0, and every reader sees a whole file."""

from __future__ import annotations

import argparse
import dataclasses
import math
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from sparkwright import cli, drift_check, pyinfra_run
from sparkwright.drift_metrics import MACHINE, drift_of, owners, text
from sparkwright.errors import SparkwrightError
from sparkwright.pyinfra_run import Outcome
from tests.unit.fake_site import write_site
from tests.unit.machine_case import DIRECTORY, data, item

TINY = item("tiny")
ITEMS = (TINY, item("tiny-two", weights=None, files=()), item("tiny.b", weights=None, files=()))


def samples(told: str) -> dict[tuple[str, ...], float]:
    """Name and labels -> value, as Prometheus' own client reads it."""
    families = text_string_to_metric_families(told)
    return {
        (s.name, *(value for _, value in sorted(s.labels.items()))): s.value
        for family in families
        for s in family.samples
    }


@pytest.mark.parametrize(
    ("what", "recipes"),
    [
        ("/etc/systemd/system/llm-tiny.service: content differs", ["tiny"]),
        ("llm-tiny: has not answered its question since this start", ["tiny"]),
        ("llm-tiny-two.service: is not active", ["tiny-two"]),
        ("llm-tiny.b.service: is not active", ["tiny.b"]),
        (f"{DIRECTORY}: missing tiny.gguf", ["tiny"]),
        ("llm-old.service: no longer in the fleet", [MACHINE]),
        ("sysctl vm.swappiness: 60, not 10", [MACHINE]),
    ],
)
def test_whose_a_difference_is(what: str, recipes: list[str]) -> None:
    assert owners(what, ITEMS) == recipes


def test_files_that_two_recipes_share_are_both_theirs() -> None:
    both = (TINY, dataclasses.replace(TINY, recipe=dataclasses.replace(TINY.recipe, name="nap")))
    assert owners(f"{DIRECTORY}: changed tiny.gguf", both) == ["tiny", "nap"]


def test_the_gauges() -> None:
    whats = ["sysctl a: 1, not 2", "llm-tiny: x", "llm-tiny.service: y"]
    told = text([drift_of("spark-1", ITEMS, whats), drift_of("spark-2", ITEMS[:1], None),
                 drift_of('a"\\b\n', (), [])], 1234.4)  # fmt: skip
    found = samples(told)
    assert found["sparkwright_drift", "spark-1", ""] == 1
    assert found["sparkwright_drift", "spark-1", "tiny"] == 2
    assert found["sparkwright_drift", "spark-1", "tiny-two"] == 0
    assert math.isnan(found["sparkwright_drift", "spark-2", "tiny"])
    assert math.isnan(found["sparkwright_drift", "spark-2", ""])
    assert found["sparkwright_asked", "spark-1"] == 1
    assert found["sparkwright_asked", "spark-2"] == 0
    assert found["sparkwright_drift", 'a"\\b\n', ""] == 0
    assert found["sparkwright_check_timestamp_seconds",] == 1234
    assert told.count("# TYPE ") == told.count("# HELP ") == 3


def test_the_file_is_replaced_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s.prom"
    drift_check.write(path, "a 1\n")
    before = path.stat().st_ino
    mask = os.umask(0o077)
    drift_check.write(path, "a 2\n")
    os.umask(mask)
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("a 2\n", 0o644)
    assert path.stat().st_ino != before

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(drift_check.os, "fsync", full)
    with pytest.raises(SparkwrightError, match=r"No space left on device; no gauges written"):
        drift_check.write(path, "a 3\n")
    assert [p.name for p in tmp_path.iterdir()] == ["s.prom"]
    assert path.read_text() == "a 2\n"


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Outcome]:
    """Two machines; outcomes of pyinfra runs by --limit, "" for the whole fleet."""
    site = data(**write_site(tmp_path), serve=["tiny"])
    hosts = [SimpleNamespace(name=name, data=SimpleNamespace(dict=lambda: site))
             for name in ("spark-1", "spark-2")]  # fmt: skip
    runs: dict[str, Outcome] = {}

    def run(words: list[str], quiet: bool, inventory: str) -> Outcome:
        return runs[words[words.index("--limit") + 1] if "--limit" in words else ""]

    monkeypatch.setattr(pyinfra_run, "run", run)
    monkeypatch.setattr(drift_check, "connect", lambda options: SimpleNamespace(hosts=hosts))
    return runs


def outcome(*whats: tuple[str, str], rc: int = 0) -> Outcome:
    rows = [{"kind": "drift", "host": host, "what": what} for host, what in whats]
    return Outcome(rc, {"plan": []}, rows, "")


def gauges(path: Path) -> dict[tuple[str, ...], float]:
    return samples(path.read_text())


def test_one_run_judges_a_fleet_that_is_there(fleet: dict[str, Outcome], tmp_path: Path) -> None:
    fleet[""] = outcome(("spark-1", "llm-tiny: x"))
    path = tmp_path / "s.prom"
    assert cli.main(["check", "--prometheus", str(path)]) == 1
    found = gauges(path)
    assert found["sparkwright_drift", "spark-1", "tiny"] == 1
    assert found["sparkwright_drift", "spark-2", "tiny"] == 0


def test_a_machine_that_is_off_makes_no_other_unknown(
    fleet: dict[str, Outcome], tmp_path: Path
) -> None:
    fleet |= {"": outcome(rc=1), "spark-1": outcome(("spark-1", "llm-tiny: x")),
              "spark-2": outcome(rc=1)}  # fmt: skip
    path = tmp_path / "s.prom"
    assert cli.main(["check", "--prometheus", str(path)]) == 2
    found = gauges(path)
    assert found["sparkwright_drift", "spark-1", "tiny"] == 1
    assert math.isnan(found["sparkwright_drift", "spark-2", "tiny"])
    assert found["sparkwright_asked", "spark-2"] == 0


def test_a_fleet_file_that_is_wrong_leaves_no_old_number(
    fleet: dict[str, Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s.prom"
    path.write_text('sparkwright_drift{machine="spark-1",recipe=""} 0\n')

    def broken(options: argparse.Namespace) -> None:
        raise SparkwrightError("sparks.yaml: sparks: is empty")

    fleet[""] = outcome(rc=1)
    monkeypatch.setattr(drift_check, "connect", broken)
    assert cli.main(["check", "--prometheus", str(path)]) == 2
    assert {name for name, *_ in gauges(path)} == {"sparkwright_check_timestamp_seconds"}


def test_a_directory_that_is_not_there(
    fleet: dict[str, Outcome], tmp_path: Path, capsys: Any
) -> None:
    fleet[""] = outcome()
    assert cli.main(["check", "--prometheus", str(tmp_path / "no/s.prom")]) == 2
    assert "No such file or directory; no gauges written" in capsys.readouterr().err
