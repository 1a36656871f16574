"""The weights agent with the real huggingface_hub 2.4.0 against a hub on loopback.

That hub offers no xet, so the transfers here are plain HTTP; that xet is switched off after a
stall is seen in the environment of the child.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.hub_server import COMMIT, FakeHub
from tests.unit.weights_case import AGENT, FILES, REPO, SHARDS, UNWANTED, Case, wait_for


@pytest.fixture
def case(tmp_path: Path) -> Iterator[Case]:
    with FakeHub(REPO, dict(FILES)) as hub:
        yield Case(tmp_path, hub)


def test_fetch_brings_the_wanted_files_and_asks_for_no_other(case: Case) -> None:
    case.fetch()
    case.assert_complete()
    assert all(case.hub.asked(path) == 1 for path in case.wanted)
    for path in UNWANTED:
        assert not (case.dir / path).exists()
        assert case.hub.asked(path) == case.hub.asked(path, "HEAD") == 0
    assert case.progress() | {"rate_bps": 0, "eta_s": None} == {
        "phase": "done", "done_bytes": sum(map(len, case.wanted.values())), "rate_bps": 0,
        "total_bytes": sum(map(len, case.wanted.values())), "eta_s": None, "message": "",
    }  # fmt: skip


def test_manifest_and_sums_tell_what_lies_there(case: Case) -> None:
    case.spec["manifest"] = {"recipe": "tiny"}
    case.fetch()
    manifest = json.loads((case.dir / "MANIFEST.json").read_text())
    assert manifest["repo"] == REPO
    assert manifest["revision"] == COMMIT
    assert manifest["source"] == case.hub.endpoint
    assert manifest["license"] == "apache-2.0"
    assert manifest["exclude"] == ["original/*", "metal/*"]
    assert manifest["recipe"] == "tiny"
    assert manifest["total_bytes"] == sum(map(len, case.wanted.values()))
    assert {item["path"]: item["sha256"] for item in manifest["files"]} == {
        path: hashlib.sha256(data).hexdigest() for path, data in case.wanted.items()
    }
    # For people without this tool.
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=case.dir, check=True)
    assert case.status()["manifest_digest"] == manifest["digest"]


def test_second_run_makes_no_request_and_changes_nothing(case: Case) -> None:
    case.fetch()
    before = {path: path.stat().st_mtime_ns for path in case.dir.rglob("*")}
    case.hub.requests.clear()
    assert "nothing to do" in case.fetch()
    assert case.hub.requests == []
    assert before == {path: path.stat().st_mtime_ns for path in case.dir.rglob("*")}


def test_changed_license_rewrites_the_manifest_without_a_request(case: Case) -> None:
    case.fetch()
    digest = case.status()["manifest_digest"]
    case.hub.requests.clear()
    case.spec["license"] = "other"
    assert not case.status()["ok"]
    case.fetch()
    assert case.hub.requests == []
    assert case.status()["manifest_digest"] == digest


def _kill(case: Case, number: signal.Signals) -> int:
    """Run until one shard hangs and all others have landed, then send the signal."""
    slow = SHARDS[1]
    case.hub.faults.trickle.add(slow)
    agent = case.start()
    others = [case.dir / path for path in case.wanted if path != slow]
    wait_for("the other files", lambda: all(path.is_file() for path in others))
    wait_for("the request", lambda: case.hub.asked(slow) == 1)
    agent.send_signal(number)
    out, err = agent.communicate(timeout=30)
    assert "Traceback" not in out + err
    case.hub.faults.trickle.clear()
    return agent.returncode


@pytest.mark.parametrize(("number", "code"), [(signal.SIGKILL, -9), (signal.SIGTERM, 143)])
def test_killed_run_resumes_without_fetching_a_finished_file_again(
    case: Case, number: signal.Signals, code: int
) -> None:
    assert _kill(case, number) == code
    state = case.status()
    assert not state["ok"]
    assert state["missing"] == [SHARDS[1]]
    assert state["missing_bytes"] == len(FILES[SHARDS[1]])
    case.hub.requests.clear()
    case.fetch()
    case.assert_complete()
    assert {path: case.hub.asked(path) for path in case.wanted} == {
        path: int(path == SHARDS[1]) for path in case.wanted
    }


def test_sigterm_leaves_no_unfinished_bytes_and_no_process(case: Case) -> None:
    _kill(case, signal.SIGTERM)
    assert not list(case.dir.rglob("*.incomplete"))
    assert case.progress()["phase"] == "stopped"
    running = subprocess.run(["pgrep", "-f", str(case.tmp)], capture_output=True, text=True)
    assert running.stdout == ""


def test_server_that_cuts_once_is_asked_again_for_that_file_only(case: Case) -> None:
    case.hub.faults.cut = {SHARDS[0]: 1}
    case.fetch()
    case.assert_complete()
    assert case.hub.asked(SHARDS[0]) == 2
    assert all(case.hub.asked(path) == 1 for path in case.wanted if path != SHARDS[0])


def test_server_that_always_sends_half_fails_and_keeps_finished_files(case: Case) -> None:
    case.hub.faults.short = {SHARDS[0]}
    text = case.fetch(code=1)
    assert "gave up after 5 attempts; run it again" in text
    assert case.progress()["phase"] == "failed"
    assert all(case.hub.asked(path) == 1 for path in case.wanted if path != SHARDS[0])
    case.hub.faults.short = set()
    case.hub.requests.clear()
    case.fetch()
    case.assert_complete()
    assert case.hub.asked(SHARDS[1]) == 0


def test_stall_is_killed_and_tried_again_without_xet(case: Case) -> None:
    seen = case.tmp / "environment"
    python = case.tmp / "python"
    python.write_text(
        f'#!/bin/sh\necho "xet=${{HF_HUB_DISABLE_XET:-on}} hf=$HF_HOME" >> {seen}\n'
        f'exec {sys.executable} "$@"\n'
    )
    python.chmod(0o755)
    case.spec |= {"hub_python": str(python), "stall_s": 8}
    case.hub.faults.stall = {SHARDS[2]: 1}
    text = case.fetch()
    case.assert_complete()
    assert "no new byte for 8 s; trying again with HF_HUB_DISABLE_XET=1" in text
    lines = seen.read_text().splitlines()
    assert [line.split()[0] for line in lines] == ["xet=on", "xet=1"]
    assert case.hub.asked(SHARDS[0]) == 1
    assert not (case.dir / ".cache/sparkwright-hub").exists()


def test_file_that_arrives_wrong_twice_ends_the_job(case: Case) -> None:
    good = FILES[SHARDS[0]]
    case.hub.served[SHARDS[0]] = b"x" * len(good)
    text = case.fetch(code=1)
    assert f"{SHARDS[0]} arrived 2 times with sha256:" in text
    assert hashlib.sha256(good).hexdigest() in text
    assert not (case.dir / SHARDS[0]).exists()
    assert case.hub.asked(SHARDS[0]) == 2
    assert not case.status()["ok"]


def test_lock_that_names_an_absent_file_ends_the_job(case: Case) -> None:
    case.spec["files"].append({"path": "gone.bin", "size": 9, "sha256": "0" * 64})
    assert "success without 1 files (gone.bin, …)" in case.fetch(code=1)


def test_only_one_job_at_a_time(case: Case) -> None:
    case.hub.faults.trickle.add(SHARDS[0])
    agent = case.start()
    wait_for("the request", lambda: case.hub.asked(SHARDS[0]) == 1)
    assert "another weights job is at work here; wait for its end" in case.fetch(code=1)
    case.hub.faults.trickle.clear()
    agent.communicate(timeout=30)
    assert agent.returncode == 0
    case.assert_complete()


def test_full_file_system_is_refused_before_the_first_byte(case: Case) -> None:
    # A mount namespace of its own: the tmpfs goes with the process.
    case.dir.mkdir()
    script = f'mount -t tmpfs -o size=4m none {case.dir} && exec "$@"'
    argv = ["unshare", "--mount", "sh", "-c", script, "sh"]
    argv += [sys.executable, str(AGENT), "fetch", case.write_spec()]
    answer = subprocess.run(argv, capture_output=True, text=True)
    assert answer.returncode == 1
    total = sum(map(len, case.wanted.values()))
    assert f"{total} bytes are missing, " in answer.stderr
    assert "more" in answer.stderr
    assert case.hub.requests == []


def test_margin_counts_as_needed(case: Case) -> None:
    case.spec["margin_bytes"] = 1 << 60
    assert f"and {1 << 60} must stay free" in case.fetch(code=1)
    assert case.hub.requests == []


REFUSALS = [
    ("deny", (401, "RepoNotFound"), "answered 401: it does not accept the token"),
    ("deny", (403, "GatedRepo"), "answered 403: the repository is gated"),
    ("deny", (404, "RepoNotFound"), "answered 404: no such repository"),
    ("deny", (404, "RevisionNotFound"), f"there is no revision {COMMIT}"),
    ("deny_files", (401, "GatedRepo"), "answered 401: the repository is gated"),
    ("deny_files", (403, "GatedRepo"), "answered 403: the repository is gated"),
]


@pytest.mark.parametrize(("where", "refusal", "message"), REFUSALS)
def test_refusal_is_one_clear_line_without_the_token(
    case: Case, where: str, refusal: tuple[int, str], message: str
) -> None:
    secret = "hf_abcdefghijklmnopqrstuvwxyz0123"
    token = case.tmp / "token"
    token.write_text(secret + "\n")
    case.spec["token_file"] = str(token)
    setattr(case.hub.faults, where, refusal)
    text = case.fetch(code=1)
    assert message in text
    assert text.count("\n") == 2, text
    assert secret not in text
    assert secret not in json.dumps(case.progress())
    for path in case.dir.rglob("*"):
        assert not path.is_file() or secret.encode() not in path.read_bytes(), path


def test_token_reaches_the_hub_and_no_file(case: Case) -> None:
    secret = "hf_abcdefghijklmnopqrstuvwxyz0123"
    (case.tmp / "token").write_text(secret)
    case.hub.faults.token = secret
    assert "answered 401: it wants a token" in case.fetch(code=1)
    case.spec["token_file"] = str(case.tmp / "token")
    assert secret not in case.fetch()
    case.assert_complete()


def test_hub_that_is_off_fails_after_a_few_attempts(case: Case) -> None:
    case.spec["endpoint"] = "http://127.0.0.1:9"
    text = case.fetch(code=1)
    assert "http://127.0.0.1:9/" in text
    assert "gave up after 5 attempts; run it again" in text


def test_venv_without_the_client_says_so(case: Case) -> None:
    case.spec["hub_python"] = shutil.which("python3", path="/usr/bin") or sys.executable
    text = case.fetch(code=1)
    assert "No module named 'huggingface_hub'" in text
