"""Files that are right give no BLOCK, and two of them nothing at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkwright.lint.context import newest
from sparkwright.lint.findings import Verdict
from sparkwright.lint.run import lint
from tests.lint import good_files

PATHS = good_files.paths()


def name(path: Path) -> str:
    return str(path.relative_to(good_files.HERE))


def test_there_are_forty() -> None:
    assert len(PATHS) >= 40


@pytest.mark.parametrize("path", PATHS, ids=name)
def test_no_block(path: Path) -> None:
    report = lint([str(path)], newest())
    assert report.cannot == {}
    assert [item for item in report.findings if item.verdict is Verdict.BLOCK] == []


@pytest.mark.parametrize("file", ["units/l15-router.service", "scripts/l16-solo.sh"])
def test_nothing_to_say(file: str) -> None:
    """L15 and L16 of the list of user pain: online, restarts limited, four models at most."""
    assert lint([str(good_files.HERE / file)], newest()).findings == ()
