"""The drift matrix as data: enough rows, each with a name of its own, and honest judgement."""

from __future__ import annotations

import pytest

from tests.drift.__main__ import ROWS, summary
from tests.drift.row import Result, Row, matches


def test_there_are_enough_rows_and_no_name_twice() -> None:
    names = [row.name for row in ROWS]
    assert len(names) >= 35
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_row_names_what_must_be_found(row: Row) -> None:
    """A bare "*" would take any phrase for the right one."""
    assert row.named
    assert all(len(pattern.replace("*", "")) > 10 for pattern in (*row.named, *row.changes))
    assert row.damage or row.fleet or row.act
    assert row.undo or row.way == "mended"


@pytest.mark.parametrize(
    ("pattern", "text", "fits"),
    [
        ("/a: missing", "/a: missing", True),
        ("/a: missing", "/a: missing, too", False),
        ("/a: missing", "x /a: missing", False),
        ("/a/*: changed", "/a/b/c: changed", True),
        ("a.b [x]", "a.b [x]", True),
        ("a.b", "axb", False),
        ("a*", "a\nb", True),
    ],
)
def test_only_a_star_stands_for_something_else(pattern: str, text: str, fits: bool) -> None:
    assert matches(pattern, text) is fits


def test_what_is_neither_named_nor_allowed_is_strange() -> None:
    row = Row("x", "rm /a", ("/a: *",), ("b: asked",))
    assert row.strange(["/a: gone", "b: asked", "/c: gone"]) == ["/c: gone"]
    assert row.missed(["b: asked"]) == ["/a: *"]
    assert row.missed(["/a: gone"]) == []


def test_the_last_line_counts_each_kind() -> None:
    row = Row("x", "rm /a", ("/a: *",))
    results = [Result(row, [], True, True, True), Result(row, [], True, False, True)]
    assert [r.good for r in results] == [True, False]
    assert summary(results) == "RESULT drift cases=2 found=2 repaired=1 untouched_others=2"
