"""Digests: equal for equal inputs in every process, different otherwise, strict about types."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from sparkwright.digest import digest
from sparkwright.errors import SparkwrightError


def test_order_of_keys_and_kind_of_list_do_not_matter() -> None:
    assert digest({"a": 1, "b": ["x", None]}) == digest({"b": ("x", None), "a": 1})
    assert re.fullmatch("[0-9a-f]{12}", digest({}))


def test_another_process_gives_the_same() -> None:
    code = "from sparkwright.digest import digest; print(digest({'b': [1, 'é'], 'a': {'x': True}}))"
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env={"PYTHONHASHSEED": "7"}, cwd=Path(__file__).parents[2],
    ).stdout.strip()  # fmt: skip
    assert out == digest({"a": {"x": True}, "b": (1, "é")})


def test_near_inputs_differ() -> None:
    inputs: list[object] = [1, "1", True, None, "", [], {}, [1], ["1"], {"1": 1}, 1.5, [[1]], "é"]
    assert len({digest({"a": value}) for value in inputs}) == len(inputs)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({1: "x"}, "digest/a: key 1 is not text"),
        (float("nan"), "digest/a: nan is not a finite number"),
        ([b"x"], "digest/a/0: a bytes has no fixed text form"),
        ({"p": Path("/x")}, "digest/a/p: a PosixPath has no fixed text form"),
        ({"s": {1}}, "digest/a/s: a set has no fixed text form"),
    ],
)
def test_what_has_no_fixed_form_is_refused(value: object, said: str) -> None:
    with pytest.raises(SparkwrightError, match=re.escape(said)):
        digest({"a": value})
