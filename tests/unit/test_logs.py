"""`sparkwright logs`: which lines name a reason, and the name that doctor has for it."""

from __future__ import annotations

import argparse
import json

import jsonschema
import pytest

from sparkwright import cli_logs, doctor, journal
from sparkwright.paths import PROJECT
from tests.unit.test_doctor import LINES

FULL = "the disk is full"


@pytest.mark.parametrize(
    "line",
    [
        # Programs write strerror(ENOSPC), Go's in small letters; a quota has a word of its own.
        "0.04.120.337 E srv    operator(): unable to save slot 0: No space left on device",
        "head: write error: No space left on device",
        "docker: write /var/lib/docker/tmp/GetImageBlob1: no space left on device.",
        "Failed to write entry (23 items, 741 bytes), ignoring: No space left on device",
        "OSError: [Errno 28] No space left on device: '/srv/sparkwright/cache/a'",
        "(W pid=7) ERROR 11-29 20:46:37 [core.py:9] OSError: [Errno 28] No space left on device",
        "cp: error writing '/srv/x': Disk quota exceeded",
    ],
)  # fmt: skip
def test_a_full_disk_is_named_whoever_writes_of_it(line: str) -> None:
    assert cli_logs.causes(["loading", line, "main: exiting"]) == [(journal.bare(line), FULL)]
    assert journal.causes(f"loading\n{line}\n") == [journal.bare(line)]


NAMED = [cause for cause in doctor.causes() if cause.where == "journal"]


@pytest.mark.parametrize("cause", NAMED, ids=lambda cause: cause.name)
def test_what_doctor_knows_has_its_name(cause: doctor.Cause) -> None:
    line = LINES[cause.name]
    assert cli_logs.causes(["loading", line]) == [(line, cause.name)]


def test_named_lines_come_first_and_each_once() -> None:
    lines = ["ValueError: a", "0.00.000.001 E b", f"x: {FULL}", "rm: No space left on device",
             "ValueError: a", "rm: No space left on device", "model loaded"]  # fmt: skip
    assert cli_logs.causes(lines) == [
        ("rm: No space left on device", FULL), ("0.00.000.001 E b", ""), ("ValueError: a", "")
    ]  # fmt: skip
    many = [f"{number}: No space left on device" for number in range(50)]
    assert len(cli_logs.causes(many)) == journal.CAUSES


def test_the_text_and_the_object(capsys: pytest.CaptureFixture[str]) -> None:
    lines = ["loading", "head: write error: No space left on device", "ValueError: a"]
    options = argparse.Namespace(causes=True, json=False)
    assert cli_logs._print("spark-1", "llm-tiny", lines, options) == 2
    options.causes = False
    assert cli_logs._print("spark-1", "llm-tiny", lines[:1], options) == 1
    assert capsys.readouterr().out == (
        (PROJECT / "tests/golden/operate/logs.txt").read_text()
    )  # fmt: skip
    schema = json.loads((PROJECT / "docs/schemas/logs.json").read_text())
    check = jsonschema.Draft202012Validator(schema)
    options.json = True
    for causes, named in ((True, FULL), (False, "")):
        options.causes = causes
        cli_logs._print("spark-1", "llm-tiny", lines[1:2], options)
        (row,) = map(json.loads, capsys.readouterr().out.splitlines())
        check.validate(row)
        assert row["cause"] == named
