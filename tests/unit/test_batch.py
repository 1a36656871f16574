"""One round trip for the operations of a task, and never an answer that is too old."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

import pytest

from sparkwright import operations
from sparkwright.operations import Batch
from sparkwright.resources import Absent, Spec, State

RESOURCES = [Absent("/a"), Absent("/b")]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Paths of every round trip; the machine's answer is the number of the trip."""
    trips: list[list[str]] = []

    def ask(host: object, specs: Sequence[Spec]) -> list[State]:
        trips.append([spec["path"] for spec in specs])
        return [{"type": f"{spec['path']} {len(trips)}"} for spec in specs]

    monkeypatch.setattr(operations, "ask", ask)
    monkeypatch.setattr(operations, "state", SimpleNamespace(current_stage="prepare"))
    return trips


def answer(batch: Batch, path: str) -> str:
    return str(batch.ask(Absent(path).probes())[0]["type"])


def test_everything_is_asked_at_the_first_question(asked: list[list[str]]) -> None:
    batch = Batch(RESOURCES)
    assert [answer(batch, "/b"), answer(batch, "/a")] == ["/b 1", "/a 1"]
    assert asked == [["/a", "/b"]]


def test_after_a_change_the_machine_is_asked_again(asked: list[list[str]]) -> None:
    batch = Batch(RESOURCES)
    answer(batch, "/a")
    batch.forget()
    assert answer(batch, "/b") == "/b 2"


def test_the_plans_answers_are_not_used_when_it_is_carried_out(
    asked: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = Batch(RESOURCES)
    answer(batch, "/a")
    monkeypatch.setattr(operations, "state", SimpleNamespace(current_stage="execute"))
    assert answer(batch, "/a") == "/a 2"
