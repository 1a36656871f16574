"""ask.py asks one question and judges answer, log and errors. The rest is in test_ask_more."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.ask_case import GOOD, JOURNAL, Bench, FakeServer, causes, chunk, running


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with running() as found:
        yield found


@pytest.fixture
def bench(
    tmp_path: Path,
    server: FakeServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Bench:
    return Bench(tmp_path, server, monkeypatch, capsys)


def test_a_right_answer_is_recorded_with_its_start(bench: Bench, server: FakeServer) -> None:
    status, found = bench.ask()
    assert status == 0
    assert found["content"] == "I am SPARK."
    assert found["reasoning"] == "The user asks."
    assert found["wrong"] == []
    assert found["ready_s"] == 12.5
    assert 0 <= found["ttft_s"] <= found["total_s"]
    assert json.loads(bench.record.read_text()) == {"invocation": "cafe", "asked": "0123456789ab"}
    assert [p.name for p in bench.record.parent.iterdir()] == ["llm-tiny.json"]
    path, body, key = server.asked[0]
    assert (path, key) == ("/v1/chat/completions", None)
    assert body == {
        "model": "tiny",
        "stream": True,
        "temperature": 0,
        "max_tokens": 64,
        "messages": [{"role": "user", "content": "What are you?"}],
    }


def test_the_key_is_sent_and_never_printed(bench: Bench, server: FakeServer) -> None:
    (bench.root / "key").write_text("TOPSECRET\n")
    status, found = bench.ask(key_file=f"{bench.root}/key")
    assert (status, server.asked[0][2]) == (0, "Bearer TOPSECRET")
    server.status = 401
    _, refused = bench.ask()
    assert "TOPSECRET" not in json.dumps([found, refused]) + bench.record.read_text()


NULL = "content is None after {} characters of reasoning"
ANSWERS: dict[str, tuple[list[Any], list[str]]] = {
    "null content": (
        [chunk(reasoning_content="hm"), chunk("length", content=None)],
        [NULL.format(2), "finish_reason is length, not stop"],
    ),
    "empty content": ([chunk(content=""), chunk("stop")], [NULL.format(0)]),
    "nothing": ([], [NULL.format(0), "finish_reason is None, not stop"]),
    "wrong text": (
        [chunk(content="I am a spark"), chunk("stop")],
        ["content 'I am a spark' lacks 'SPARK'"],
    ),
    "only in the reasoning": (
        [chunk(reasoning_content="SPARK"), chunk(content="I"), chunk("stop")],
        ["content 'I' lacks 'SPARK'"],
    ),
    "length": (
        [chunk(content="SPARK and"), chunk("length")],
        ["finish_reason is length, not stop"],
    ),
    "an error in the stream": (
        [{"error": {"message": "context"}}],
        [NULL.format(0), "finish_reason is None, not stop"],
    ),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_a_wrong_answer_is_not_recorded(bench: Bench, server: FakeServer, name: str) -> None:
    server.stream, wrong = ANSWERS[name]
    status, found = bench.ask()
    assert status == 1
    assert causes(found) == wrong
    assert not bench.record.exists()


@pytest.mark.parametrize("status", [401, 404, 500, 503])
def test_an_http_error_is_one_line(bench: Bench, server: FakeServer, status: int) -> None:
    server.status = status
    code, found = bench.ask()
    assert code == 1
    assert causes(found) == [f'OSError: HTTP {status}: {{"error": "loading model"}}']
    assert not bench.record.exists()


def test_a_stream_that_is_no_json_is_one_line(bench: Bench, server: FakeServer) -> None:
    server.stream = ["data: <html>"]
    code, found = bench.ask()
    assert code == 1
    assert causes(found)[0].startswith("JSONDecodeError: ")


def test_a_connection_that_breaks_is_not_success(bench: Bench, server: FakeServer) -> None:
    server.cut, server.stream = True, GOOD[:4]
    code, found = bench.ask()
    assert code == 1
    assert found["wrong"]
    assert not bench.record.exists()


def test_nobody_listening_is_one_line(bench: Bench) -> None:
    code, found = bench.ask(url="http://127.0.0.1:1")
    assert code == 1
    assert causes(found)[0].startswith("ConnectionRefusedError")


def test_comments_and_other_events_are_passed_over(bench: Bench, server: FakeServer) -> None:
    server.stream = [": keepalive", "event: message", *GOOD]
    assert bench.ask()[0] == 0


LOGS: list[tuple[dict[str, list[str]], list[str]]] = [
    ({"log_must": ["using device CUDA0"]},
     ["the journal since this start has no line like 'using device CUDA0'"]),
    ({"log_must": ["^main: model loaded$", "^srv"]}, []),
    ({"log_must": ["model.*listening"]},  # a pattern stays within its line
     ["the journal since this start has no line like 'model.*listening'"]),
    ({"log_must_not": ["loaded"]}, ["the journal says 'main: model loaded'"]),
    ({"log_must_not": ["^main"]}, ["the journal says 'main: model loaded'"]),
    ({"log_must_not": ["listening$"]}, ["the journal says 'srv: listening'"]),
    ({"log_must_not": ["absent|srv"]}, ["the journal says 'srv: listening'"]),
    ({"log_must_not": ["(?i)MODEL LOADED"]}, ["the journal says 'main: model loaded'"]),
    ({"log_must_not": ["^loaded", "^build$"]}, []),
    ({"log_must": [], "log_must_not": []}, []),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "wrong"), LOGS)
def test_the_journal_is_judged_line_by_line(
    bench: Bench, spec: dict[str, list[str]], wrong: list[str]
) -> None:
    status, found = bench.ask(**{"log_must_not": [], **spec})
    assert causes(found) == wrong
    assert status == (1 if wrong else 0)
    assert bench.record.exists() is (not wrong)


def test_an_empty_journal_proves_nothing(bench: Bench) -> None:
    bench.log = ""
    assert bench.ask()[0] == 1


def test_an_old_record_of_success_stays_when_asking_fails(bench: Bench, server: FakeServer) -> None:
    """It names the start that answered, so a later start is asked again all the same."""
    bench.ask()
    server.status = 500
    bench.ask(invocation="beef")
    assert json.loads(bench.record.read_text())["invocation"] == "cafe"


def fake_systemctl(root: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = root / "systemctl"
    tool.write_text(f"#!/bin/sh\nprintf '{text}'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{root}:/usr/bin:/bin")


@pytest.mark.parametrize(
    ("began", "ready", "wanted"),
    [("1000000", "3500000", 2.5), ("0", "5", None), ("5", "0", None), ("", "", None)],
)
def test_ready_is_from_start_to_active(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, began: str, ready: str, wanted: float | None
) -> None:
    text = f"InactiveExitTimestampMonotonic={began}\\nActiveEnterTimestampMonotonic={ready}\\n"
    fake_systemctl(tmp_path, text, monkeypatch)
    assert JOURNAL.ready_s("x.service") == wanted
