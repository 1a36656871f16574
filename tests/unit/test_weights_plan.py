"""Weights: the agent's spec and what its verdict makes happen."""

from __future__ import annotations

import base64
import dataclasses
import json
from typing import Any

import pytest

from sparkwright.artifacts import HubFile
from sparkwright.jobs import JobPlan, start_commands
from sparkwright.resources import State
from sparkwright.weights_plan import plan, probes, spec_of, verdict
from tests.unit.machine_case import COMMIT, DIRECTORY, HASH, WEIGHTS, data

TOKEN = "hf_TOPSECRET"
SPEC = spec_of(WEIGHTS, data(), "https://hub.example")
GOOD = {"ok": True, "manifest_digest": "feed", "missing": [], "changed": [], "leftovers": {}}


def answer(**changes: Any) -> list[State]:
    return [{"rc": 0, "out": json.dumps({**GOOD, **changes})}]


def planned(states: list[State], gated: bool = False, token: str | None = TOKEN) -> JobPlan:
    return plan(dataclasses.replace(WEIGHTS, gated=gated), SPEC, "llm", token, states)


def test_the_spec_says_what_the_agent_needs() -> None:
    extra = HubFile("config.json", 7, git_sha1="cd" * 20)
    wanted = dataclasses.replace(WEIGHTS, files=(*WEIGHTS.files, extra))
    settings = data(weights_adopt_dirs=["/old"], weights_stall_s=5, prefix="/p")
    assert spec_of(wanted, settings, "https://hub.example") == {
        "dir": DIRECTORY,
        "repo": "lab/tiny",
        "commit": COMMIT,
        "endpoint": "https://hub.example",
        "hub_python": "/p/hub-client/current/bin/python",
        "files": [
            {"path": "tiny.gguf", "size": 1000, "sha256": HASH},
            {"path": "config.json", "size": 7, "git_sha1": "cd" * 20},
        ],
        "include": ["*.gguf"],
        "exclude": [],
        "license": "mit",
        "adopt_dirs": ["/old"],
        "stall_s": 5,
        "token_file": None,
    }


def test_revisions_lie_side_by_side() -> None:
    assert COMMIT[:12] in WEIGHTS.directory


def test_a_finished_machine_needs_nothing() -> None:
    assert planned(answer()) == JobPlan()


def test_leftovers_are_told_and_not_removed() -> None:
    found = planned(answer(leftovers={"original": 130_000_000_000, "metal": 5}))
    assert found.drift == ()
    assert found.job is None
    assert found.notes == (
        f"{DIRECTORY}/metal: 5 bytes of an earlier download, not used; remove it yourself to "
        "free them",
        f"{DIRECTORY}/original: 130000000000 bytes of an earlier download, not used; remove it "
        "yourself to free them",
    )


@pytest.mark.parametrize(
    ("states", "drift"),
    [
        (answer(ok=False, missing=["a"], changed=["b"]), ("missing a", "changed b")),
        (answer(ok=False), ("no valid manifest",)),
        ([{"rc": 2, "out": "", "err": "no such file"}], ("missing everything",)),
        ([{"rc": 1, "out": "Traceback"}], ("missing everything",)),
        ([{"error": "OSError"}], ("missing everything",)),
    ],
)
def test_each_damage_fetches(states: list[State], drift: tuple[str, ...]) -> None:
    found = planned(states)
    assert found.drift == tuple(f"{DIRECTORY}: {text}" for text in drift)
    assert found.job is not None
    assert found.job.user == "llm"
    assert found.job.program == ("/opt/sparkwright/lib/weights.py", "fetch")
    made = f"mkdir -p {DIRECTORY} && chown llm:llm {DIRECTORY} && "
    assert [c.shell.startswith(made) for c in found.before] == [True]


def commands(found: JobPlan) -> list[tuple[str, str]]:
    assert found.job is not None
    return [(c.shell, base64.b64decode(c.stdin or "").decode()) for c in start_commands(found.job)]


def test_the_token_travels_on_standard_input_alone() -> None:
    found = planned(answer(ok=False), gated=True)
    shells, inputs = zip(*commands(found), strict=True)
    assert not any(TOKEN in text for text in shells)
    assert TOKEN in inputs
    spec = next(json.loads(text) for text in inputs if text.startswith("{"))
    assert found.job is not None
    assert spec["token_file"] == found.job.secret_file
    assert TOKEN not in json.dumps(spec)
    assert TOKEN not in repr(found)


@pytest.mark.parametrize(("gated", "token"), [(False, TOKEN), (True, None), (True, "")])
def test_no_token_goes_where_none_is_needed(gated: bool, token: str | None) -> None:
    found = planned(answer(ok=False), gated, token)
    assert found.job is not None
    assert not found.job.secret
    assert found.job.spec["token_file"] is None
    assert not any(TOKEN in text for pair in commands(found) for text in pair)


def test_another_file_list_is_another_job() -> None:
    one = planned(answer(ok=False)).job
    spec = {**SPEC, "files": [{"path": "other", "size": 1, "sha256": HASH}]}
    two = plan(WEIGHTS, spec, "llm", None, answer(ok=False)).job
    assert one is not None
    assert two is not None
    assert one.digest != two.digest


def test_deep_hashes_everything() -> None:
    assert probes(SPEC, True)[0]["argv"][-1] == "--deep"
    fast = probes(SPEC, False)[0]
    assert "--deep" not in fast["argv"]
    assert json.loads(fast["stdin"]) == SPEC


def test_a_verdict_is_complete_whatever_the_agent_said() -> None:
    for state in ({}, {"out": ""}, {"out": "no json"}, answer(ok=False)[0]):
        assert set(verdict(state)) >= {"ok", "manifest_digest", "missing", "changed", "leftovers"}


def test_labels_are_fit_for_unit_names() -> None:
    snapshot = dataclasses.replace(WEIGHTS.snapshot, repo="Lab_X/Tiny.1-GGUF")
    assert dataclasses.replace(WEIGHTS, snapshot=snapshot).label == "weights-lab-x-tiny.1-gguf"
