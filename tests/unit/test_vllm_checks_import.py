"""A module of a vLLM environment that ends its process without a word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.machine_case import program

checks: Any = program("vllm_checks")


@pytest.mark.parametrize(
    ("answer", "why"),
    [((-4, ""), "ended by signal 4"), ((1, "ImportError: no\n"), "ImportError: no")],
)
def test_why_an_import_failed(answer: tuple[int, str], why: str) -> None:
    (told,) = checks._imports(Path("/v"), ["vllm._C"], lambda argv: answer)
    assert told.startswith(f"/v: import vllm._C: {why}; its wheels do not fit together")
    assert not list(checks._imports(Path("/v"), ["torch"], lambda argv: (0, "")))
