"""Files that are right: none of them may give a BLOCK."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sparkwright.lint.context import newest
from sparkwright.lint.findings import Finding
from sparkwright.lint.run import lint

HERE = Path(__file__).parent / "good"


def paths() -> list[Path]:
    """Every good file."""
    return sorted(path for path in HERE.rglob("*") if path.is_file())


def findings() -> Iterator[tuple[Path, tuple[Finding, ...]]]:
    """Each good file with what the lint says about it alone."""
    for path in paths():
        report = lint([str(path)], newest())
        if report.cannot:
            raise AssertionError(report.cannot)
        yield path.relative_to(HERE), report.findings
