"""`sparkwright show`: the unit and command of a machine, out of what it answers."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import jsonschema

from sparkwright import show
from sparkwright.paths import PROJECT
from sparkwright.show import Shown
from sparkwright.site import planned
from sparkwright.status_ask import Answer
from sparkwright.units import render_unit
from tests.unit.fake_machine import FakeMachine
from tests.unit.fake_site import write_site
from tests.unit.machine_case import answers, data, service

SCHEMA = json.loads((PROJECT / "docs/schemas/show.json").read_text())


def one(tmp_path: Path) -> Shown:
    """A machine that is as wanted, asked for its recipe."""
    site = data(**write_site(tmp_path), serve=["tiny"])
    fake = FakeMachine(site, [])
    program, spec = show.question(site, "tiny")
    assert program == "probe.py"
    return show.shown(Answer("spark-1", site, [fake.plain(s) for s in json.loads(spec)]), "tiny")


def test_the_unit_and_its_command(tmp_path: Path) -> None:
    found = one(tmp_path)
    assert (found.why, found.drift, found.code) == ("", "", 0)
    assert found.path == "/etc/systemd/system/llm-tiny.service"
    assert str(PROJECT) not in found.text
    start = next(line for line in found.text.splitlines() if line.startswith("ExecStart="))
    program = start.removeprefix("ExecStart=").split()[0]
    assert program in found.command.split()
    assert "--port 8080" in found.command
    assert subprocess.run(["sh", "-nc", found.command], check=False).returncode == 0
    jsonschema.Draft202012Validator(SCHEMA).validate({"units": [show.as_json(found)]})


def test_a_machine_that_is_off(tmp_path: Path) -> None:
    found = show.shown(Answer("spark-1", {}, None, "no answer within 10 s"), "tiny")
    assert (found.why, found.code, found.text) == ("no answer within 10 s", 2, "")
    jsonschema.Draft202012Validator(SCHEMA).validate({"units": [show.as_json(found)]})


def test_secrets_stay_in_their_file() -> None:
    import dataclasses

    made = dataclasses.replace(service(answers()), env_file="/etc/sparkwright/api-key.env")
    line = show.command(made)
    assert line.startswith("set -a; . /etc/sparkwright/api-key.env; env GGML_X=1 ")
    assert render_unit(made)


def test_who_serves_a_recipe(tmp_path: Path) -> None:
    site = data(**write_site(tmp_path), serve=[{"recipe": "nap", "state": "standby"}, "tiny"])
    assert [show.serves(site, name) for name in ("nap", "tiny", "x")] == [True, True, False]
    assert len(planned(site)) == 2
    members = [{"name": n, "fabric": [a]} for n, a in (("s1", "10.9.0.10"), ("s2", "10.9.0.11"))]
    pair = {"name": "pair", "rank": 0, "members": members, "serve": [{"recipe": "big"}]}
    assert show.serves({**site, "cluster": pair}, "big")
