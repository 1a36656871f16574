"""A worker's side of the link: what it does when the head asks for a fresh process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.machine_case import program

worker = program("pair_worker")
UNIT = "llm-x.service"
RESTART = [("reset-failed", UNIT), ("restart", "--no-block", UNIT)]
# State of the worker's unit -> what is ordered; the process "used" is one that a head has had.
CASES: dict[str, tuple[dict[str, Any], list[tuple[str, ...]]]] = {
    "new": ({}, []),
    "used": ({"invocation": "used"}, RESTART),
    "of an older file": ({"stale": True}, RESTART),
    "starting": ({"active": "activating"}, []),
    # A rank that does not end at SIGTERM takes 90 s, and the head asks every 2 s.
    "ending": ({"active": "deactivating", "invocation": "used"}, []),
    "ended": ({"active": "failed", "invocation": "used"}, RESTART),
    "stopped": ({"active": "inactive", "invocation": ""}, RESTART),
}


@pytest.mark.parametrize(("state", "orders"), CASES.values(), ids=CASES)
def test_a_fresh_process_is_ordered_once(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    state: dict[str, Any],
    orders: list[tuple[str, ...]],
) -> None:
    given: list[tuple[str, ...]] = []

    def order(*words: str) -> str:
        given.append(words)
        return ""

    base = {"active": "active", "invocation": "new", "stale": False, "file": "p", "result": "-"}
    monkeypatch.setattr(worker, "show", lambda unit: {**base, **state})
    monkeypatch.setattr(worker, "order", order)
    monkeypatch.setattr(worker, "mark", lambda unit: tmp_path / "owed")
    monkeypatch.setattr(worker.Kept, "read", lambda self: {"invocation": "used"})
    monkeypatch.setattr(worker.Kept, "write", lambda self, value: None)
    reply = worker.Worker(UNIT).answer({"do": "fresh", "head": "activating", "pair": "p"})
    assert given == orders
    assert reply["wrong"] == ""


def test_another_pair_is_never_started(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"active": "failed", "invocation": "", "stale": False, "file": "q", "result": "-"}
    monkeypatch.setattr(worker, "show", lambda unit: dict(found))
    monkeypatch.setattr(worker, "order", lambda *words: pytest.fail(f"ordered {words}"))
    monkeypatch.setattr(worker.Kept, "read", lambda self: {})
    reply = worker.Worker(UNIT).answer({"do": "fresh", "head": "activating", "pair": "p"})
    assert reply["wrong"] == "llm-x.service is of pair q, not p"
