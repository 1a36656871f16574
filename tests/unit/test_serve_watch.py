"""A start is followed until it is over: what stands between the old process and the new is not."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from sparkwright import serve_watch
from tests.unit.machine_case import ITEM

JOB = {"Job": "77"}
OLD, GONE = {"ActiveState": "active", **JOB}, {"ActiveState": "inactive", **JOB}
LOADS, SERVES = {"ActiveState": "activating", **JOB}, {"ActiveState": "active"}
FAILED = {"ActiveState": "failed", "Result": "exit-code"}
AGAIN = {"ActiveState": "activating", "SubState": "auto-restart"}
STARTS: dict[str, tuple[Sequence[dict[str, str]], bool]] = {
    "a restart": ([OLD, {"ActiveState": "deactivating", **JOB}, GONE, LOADS, SERVES], True),
    "a first start": ([GONE, LOADS, SERVES], True),
    "a start that waits for another unit's stop": ([GONE, GONE, LOADS, SERVES], True),
    "one that fails": ([LOADS, FAILED], False),
    "one that systemd tries again": ([LOADS, {**AGAIN, **JOB}, AGAIN], False),
    "one that somebody stopped": ([LOADS, {"ActiveState": "inactive"}], False),
    "a part of which another unit's start is the job": (
        [{"ActiveState": "activating"}, SERVES],
        True,
    ),
}


@pytest.mark.parametrize("name", STARTS)
def test_it_is_followed_to_its_end(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    states, good = STARTS[name]
    left = list(states)
    said: list[str] = []

    def ask(host: object, specs: object) -> list[Any]:
        return [left.pop(0), {}]

    monkeypatch.setattr(serve_watch, "ask", ask)
    monkeypatch.setattr(serve_watch, "explain", lambda host, unit, what: said.append(what))
    monkeypatch.setattr(serve_watch.report, "record", lambda *words: said.append(words[0]))
    monkeypatch.setattr(serve_watch.time, "sleep", lambda seconds: None)
    host = SimpleNamespace(print_prefix="")
    assert serve_watch.watch_start(None, host, "llm-tiny.service", ITEM) is good
    assert left == []
    assert said == (["started"] if good else [f"is {states[-1]['ActiveState']} "
                                              f"({states[-1].get('Result')})"])  # fmt: skip
