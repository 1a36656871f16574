"""`sparkwright status`: the program on the machine, words for states, rates, table and object."""

from __future__ import annotations

import io
import json
import os
import socket
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from rich.console import Console

from sparkwright import status_judge, status_table, status_text
from sparkwright.paths import PROJECT, script
from sparkwright.status_ask import Answer
from sparkwright.status_rate import Rates
from sparkwright.status_rows import MachineRow, Row, build_of, percent, state_of
from tests.unit.machine_case import ITEM, data, program

status: Any = program("status")
SCHEMA = json.loads((PROJECT / "docs/schemas/status.json").read_text())
LLAMA = """# HELP llamacpp:tokens_predicted_total Number of generation tokens processed.
# TYPE llamacpp:tokens_predicted_total counter
llamacpp:tokens_predicted_total {tokens}
llamacpp:requests_processing {busy}
llamacpp:requests_deferred 2
"""
VLLM = """vllm:generation_tokens_total{engine="0",model_name="a"} 10.0
vllm:generation_tokens_total{engine="1",model_name="a"} 1.5e+01
vllm:num_requests_running{engine="0",model_name="a"} 0.0
"""


# --- the program ---


@contextmanager
def engine(pages: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """An engine that says these pages; a callable page is asked each time."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = pages.get(self.path)
            text = page() if callable(page) else page
            self.send_response(200 if text is not None else 404)
            self.end_headers()
            self.wfile.write((text or "").encode())

        def log_message(self, format: str, *args: Any) -> None:
            pages.setdefault("key", []).append(self.headers.get("Authorization"))

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield {"host": "127.0.0.1", "port": server.server_port, "health": "/health"}
    finally:
        server.shutdown()
        server.server_close()


def test_counters_of_both_engines() -> None:
    found = status.counters(LLAMA.format(tokens=7, busy=1))
    assert status.pick(found, status.TOKENS) == 7
    assert status.pick(found, status.WAITING) == 2
    assert status.pick(status.counters(VLLM), status.TOKENS) == 25
    assert status.pick(status.counters("no\n\x00metrics 1"), status.TOKENS) is None


def test_a_busy_engine_is_looked_at_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "APART_S", 0.05)
    tokens = iter([100, 150])
    page = {"/metrics": lambda: LLAMA.format(tokens=next(tokens), busy=1)}
    with engine(page) as unit:
        found = status.metrics(unit)
    assert (found["tokens"], found["busy"], found["waiting"]) == (100, 1, 2)
    assert found["rate"] == pytest.approx(50 / found["over_s"])


def test_an_idle_engine_is_looked_at_once() -> None:
    tokens = iter([100])
    with engine({"/metrics": lambda: LLAMA.format(tokens=next(tokens), busy=0)}) as unit:
        assert status.metrics(unit)["rate"] == 0


def test_a_counter_that_begins_again_gives_no_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "APART_S", 0.01)
    tokens = iter([100, 3])
    with engine({"/metrics": lambda: LLAMA.format(tokens=next(tokens), busy=1)}) as unit:
        assert status.metrics(unit)["rate"] == 0


def test_an_engine_without_metrics_says_nothing() -> None:
    with engine({}) as unit:
        assert status.metrics(unit) == {"said": False}
    assert status.get({"host": "127.0.0.1", "port": 1}, "/health")[0] == 0


@pytest.mark.parametrize("answer", [b"", b"SSH-2.0-OpenSSH_9.6\r\n", b"HTTP/1.1 soon\r\n\r\n"])
def test_what_answers_otherwise_is_no_engine(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            link, _ = server.accept()
            with link:
                link.recv(1000)
                link.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        where = {"host": "127.0.0.1", "port": server.getsockname()[1]}
        status_, why = status.get(where, "/health")
    assert (status_, bool(why)) == (0, True)


def test_the_key_is_sent(tmp_path: Path) -> None:
    pages: dict[str, Any] = {"/health": "ok"}
    (tmp_path / "key").write_text("abc\n")
    with engine(pages) as unit:
        assert status.get({**unit, "key_file": str(tmp_path / "key")}, "/health") == (200, "ok")
    assert pages["key"] == ["Bearer abc"]


def test_gpu_memory_by_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GB10 says [N/A] in some columns; a process that it cannot size counts as nothing."""
    smi = tmp_path / "nvidia-smi"
    smi.write_text("#!/bin/sh\nprintf '12, 61397\\n13, [N/A]\\n[Not Supported]\\n'\n")
    smi.chmod(smi.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert status.gpu() == {12: 61397 * 2**20}
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    assert status.gpu() == {}


def test_what_a_process_holds() -> None:
    pid = os.getpid()
    mine = next(row for row in status.processes({pid: 2**40}) if row["pid"] == pid)
    assert 2**40 + 2**20 < mine["bytes"] < 2**40 + 2**33


ID = "0123456789ab" + "c" * 52


@pytest.mark.parametrize(
    ("group", "file", "name"),
    [
        ("/system.slice/llm-a.service", '{"Name": "/open-webui"}', ""),
        (f"/system.slice/docker-{ID}.scope", '{"Name": "/open-webui"}', "open-webui"),
        (f"/docker/{ID}", '{"Name": "/open-webui"}', "open-webui"),
        (f"/docker/{ID}", None, ID[:12]),
        (f"/docker/{ID}", "{}", ID[:12]),
        (f"/docker/{ID}", "half", ID[:12]),
    ],
)
def test_the_container_of_a_process(
    group: str, file: str | None, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status, "DOCKER", str(tmp_path))
    (tmp_path / ID).mkdir()
    if file is not None:
        (tmp_path / ID / "config.v2.json").write_text(file)
    assert status.container(group) == name


@pytest.mark.parametrize(
    ("group", "container", "unit"),
    [
        ("/system.slice/llm-a.service", "", "llm-a.service"),
        ("/system.slice/llm-a.service/worker", "", "llm-a.service"),
        ("/user.slice/user@1000.service/app.slice/x.service", "", "x.service"),
        ("/user.slice/user-0.slice/session-3.scope", "", "session-3.scope"),
        (f"/system.slice/docker-{ID}.scope", "open-webui", "container open-webui"),
        ("/init.scope", "", "init.scope"),
        ("/", "", ""),
    ],
)
def test_who_holds_memory_and_what_still_fits(group: str, container: str, unit: str) -> None:
    held = {"pid": 7, "name": "python3", "bytes": 2**31, "group": group, "container": container}
    for free, share in ((119.9, 0.88), (41.0, 0.34), (0.0, 0.0)):
        memory = {"total": 120 * 2**30, "available": int(free * 2**30)}
        said = {"memory": memory, "holders": [held], "states": [], "units": []}
        found = status_judge.machine(Answer("spark-1", data(), said))
        assert (found.share, found.holders) == (share, (("python3 (7)", unit, 2.0),))


def test_the_last_acceptance(tmp_path: Path) -> None:
    record = tmp_path / "a.json"
    assert status.accepted(str(record)) is None
    for text in ("", "[]", '{"asked": 1}'):
        record.write_text(text)
        assert status.accepted(str(record)) is None
    record.write_text('{"asked": "x", "invocation": "y"}')
    found = status.accepted(str(record))
    assert found == {"at": record.stat().st_mtime, "invocation": "y", "asked": "x"}


def test_it_prints_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    spec = {"units": [], "probe": script("probe.py"), "questions": [{"kind": "ports"}]}
    assert status.main([json.dumps(spec)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["memory"]["total"] > found["memory"]["available"] > 0
    assert len(found["holders"]) <= status.HOLDERS
    assert "ports" in found["states"][0]


# --- words ---

UNIT: dict[str, Any] = {"load": "loaded", "active": "active", "sub": "running", "health": 200}


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({}, "running"),
        ({"health": 503}, "silent"),
        ({"active": "activating", "sub": "start-post"}, "loading"),
        ({"active": "activating", "sub": "auto-restart"}, "failing"),
        ({"active": "failed"}, "failed"),
        ({"active": "inactive"}, "stopped"),
        ({"load": "not-found", "active": "inactive"}, "missing"),
    ],
)
def test_one_word_for_a_unit(changes: dict[str, Any], word: str) -> None:
    assert state_of(ITEM, {**UNIT, **changes}) == word


def test_how_far_a_load_has_come() -> None:
    assert percent(ITEM, {"read": 420}) == 42
    assert percent(ITEM, {"read": 5000}) == 99
    assert percent(ITEM, {"read": 0}) is None
    assert percent(ITEM, {"read": None}) is None


@pytest.mark.parametrize(
    ("build", "version", "shown"),
    [
        ("b11312-0c1e57098bba", "b11312", "b11312 0c1e5709"),
        ("sha256:0123456789", "", "01234567"),
        ("aa6d317d09db", "0.5.0-dev (build 11312, commit 0c1e)", "b11312 aa6d317d"),
        ("absent", "", "absent"),
    ],
)
def test_a_build_in_short(build: str, version: str, shown: str) -> None:
    assert build_of(build, version) == shown


# --- rows ---


def row(**changes: Any) -> Row:
    fields: dict[str, Any] = {
        "machine": "spark-1", "recipe": "tiny", "wanted": "running", "state": "running",
        "port": 8080, "listen": "127.0.0.1", "engine": "llama.cpp", "memory_gib": 10,
        "build": "b11312 0c1e5709", "digest": "0123456789ab", "uptime_s": 7300.0,
        "used_gib": 9.26, "drift": (), "accepted": True, "accepted_at": 940.0, "tok_s": 57.83,
        "tok_over_s": 1.0, "tokens": 100.0, "requests": 2, "waiting": 0, "restarts": 0,
        "invocation": "a",
    }  # fmt: skip
    return Row(**{**fields, **changes})


def machine(*rows: Row, **changes: Any) -> MachineRow:
    fields: dict[str, Any] = {
        "name": "spark-1", "reached": True, "why": "", "rows": rows, "total_gib": 121.7,
        "available_gib": 80.0, "share": 0.65,
        "holders": (("llama-server (7)", "llm-a.service", 9.0),),
    }  # fmt: skip
    return MachineRow(**{**fields, **changes})


UNKNOWN = {"state": "unknown", "drift": None, "build": None, "digest": None, "accepted": None,
           "accepted_at": None, "tok_s": None, "uptime_s": None, "used_gib": None, "requests": None,
           "waiting": None, "tokens": None, "why": "no answer within 10 s"}  # fmt: skip
OFF = machine(
    row(machine="spark-2", **UNKNOWN), name="spark-2", reached=False, why="no answer within 10 s",
    total_gib=None, available_gib=None, share=None, holders=(),
)  # fmt: skip
FLEET = [
    machine(
        row(),
        row(recipe="two", port=8081, state="loading", percent=42, uptime_s=None, tok_s=None,
            accepted=None, accepted_at=None),
        row(recipe="three", port=8082, state="failed", drift=("a: differs", "b: is not active"),
            uptime_s=None, used_gib=None, tok_s=None),
        row(recipe="four", port=8083, accepted=False, tok_s=0.0, requests=0),
        row(recipe="five", port=8084, state="standby", wanted="standby", uptime_s=None,
            accepted=None, tok_s=None, used_gib=None),
    ),
    OFF,
    machine(name="spark-3", rows=()),
    machine(name="spark-4", rows=(), why="lock: no commit\nrun: sparkwright lock"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "good"),
    [
        ({}, True),
        ({"state": "standby", "accepted": None}, True),
        ({"drift": ("x",)}, False),
        ({"drift": None}, False),
        ({"accepted": False}, False),
        ({"state": "loading"}, False),
    ],
)
def test_what_needs_nobody(changes: dict[str, Any], good: bool) -> None:
    assert row(**changes).good is good


def test_the_exit_code_is_the_worst() -> None:
    fine = machine(row())
    assert status_text.code([]) == 0
    assert status_text.code([fine, machine(rows=())]) == 0
    assert status_text.code([fine, machine(row(state="loading"))]) == 1
    assert status_text.code([fine, machine(row(state="failed")), OFF]) == 2
    assert status_text.code([machine(row(drift=None))]) == 2


def shown(machines: list[MachineRow], width: int = 240) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, highlight=False)
    made = status_table.show(machines, 1000.0, width)
    console.print(made.table)
    lines = [*made.lines, *status_text.holders(machines)]
    return "\n".join(line.rstrip() for line in [*out.getvalue().splitlines(), *lines, ""])


def test_the_text() -> None:
    assert shown(FLEET) == (PROJECT / "tests/golden/operate/status.txt").read_text()


@pytest.mark.parametrize("width", [60, 80, 100, 120])
def test_a_narrow_terminal_cuts_nothing(width: int) -> None:
    text = shown(FLEET, width)
    table = text.split("\nspark-1 three: drift: a: differs (+1)\n")[0].splitlines()
    assert "\N{HORIZONTAL ELLIPSIS}" not in text
    assert max(len(line) for line in table) <= width
    assert [line.split()[1] for line in table[1:6]] == ["tiny", "two", "three", "four", "five"]
    assert "AS WANTED" in table[0]
    named = text.split("no room for ")[1].split(":")[0].split(", ") if "no room" in text else []
    assert [c for c in status_table.COLUMNS if c not in table[0]] == [
        c for c in status_table.COLUMNS if c in named
    ]
    assert "spark-4: lock: no commit run: sparkwright lock" in text


def test_a_name_that_has_no_room_is_folded() -> None:
    name = "a-recipe-with-a-very-long-name-that-no-terminal-holds"
    text = shown([machine(row(recipe=name))], 40)
    parts = [line.split()[-1 if place else 1] for place, line in enumerate(text.splitlines()[1:3])]
    assert "\N{HORIZONTAL ELLIPSIS}" not in text
    assert name.startswith(parts[0])


def test_what_looks_like_markup_is_shown() -> None:
    text = shown([machine(row(drift=("[/x]: [red]",))), machine(rows=(), why="[/tmp] is full")])
    assert "drift: [/x]: [red]" in text
    assert "[/tmp] is full" in text


def test_the_object_is_as_its_schema_says() -> None:
    found = json.loads(json.dumps(status_text.as_json(FLEET, 0.0)))
    jsonschema.Draft202012Validator(SCHEMA).validate(found)
    assert (found["at"], found["state"]) == ("1970-01-01T00:00:00Z", "unknown")
    assert [m["state"] for m in found["machines"]] == ["attention", "unknown", "ok", "unknown"]


@pytest.mark.parametrize(
    ("seconds", "text"), [(-3, "0s"), (59.9, "59s"), (60, "1m"), (7300, "2h"), (200_000, "2d")]
)
def test_ages(seconds: float, text: str) -> None:
    assert status_text.age(seconds) == text


# --- rates ---


def rate_at(rates: Rates, now: float, **changes: Any) -> tuple[float | None, float | None]:
    found = rates.update([machine(row(tok_s=0.0, tok_over_s=0.0, **changes))], now)[0].rows[0]
    return found.tok_s, found.tok_over_s


def test_a_rate_over_the_last_minute() -> None:
    rates = Rates()
    assert rate_at(rates, 0, tokens=1000.0) == (0.0, 0.0)
    assert rate_at(rates, 30, tokens=1300.0) == (10.0, 30)
    assert rate_at(rates, 60, tokens=1300.0) == (5.0, 60)
    assert rate_at(rates, 90, tokens=1300.0) == (0.0, 60)


def test_a_restart_begins_anew() -> None:
    rates = Rates()
    rate_at(rates, 0, tokens=1000.0)
    assert rate_at(rates, 10, tokens=5.0) == (0.0, 0.0)
    assert rate_at(rates, 20, tokens=105.0) == (10.0, 10)
    assert rate_at(rates, 30, tokens=500.0, invocation="b") == (0.0, 0.0)


def test_an_engine_without_a_counter_has_no_rate() -> None:
    assert rate_at(Rates(), 0, tokens=None) == (0.0, 0.0)
