"""Units that sparkwright renders are clean, whatever is in them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkwright.engine_facts import EngineFacts
from sparkwright.lint import builds
from sparkwright.lint.context import newest
from sparkwright.lint.findings import Verdict
from sparkwright.lint.model import Kind
from sparkwright.lint.parse import systemd
from sparkwright.lint.run import lint_text, lint_unit
from sparkwright.lint.text import of_file
from sparkwright.paths import PROJECT
from sparkwright.quoting import environment, exec_line

GOLDEN = sorted((PROJECT / "tests/golden").glob("*.service"))
# systemd's own limits apart, any text; quoting.py refuses what systemd cannot carry.
TEXT = st.text(st.characters(exclude_categories=["Cs", "Cn"], exclude_characters="\0"), max_size=30)


def facts(path: Path) -> EngineFacts | None:
    """The build that a golden unit was rendered for; an image's and a nightly's are not known."""
    profile = path.name.removesuffix(".service").partition(".")[2]
    versions = {"stock-0.17.1": "0.17.1", "stock": "0.33.0"}
    return builds.for_version(versions[profile]) if profile in versions else None


def doubts(build: EngineFacts | None) -> set[str]:
    """Warnings that a build of ours deserves: old Marlin, of which vllm_backends.py says so too."""
    old = build is not None and build.version.startswith("0.17")
    return {"gpt-oss-old-marlin"} if old else set()


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_golden_unit_is_clean(path: Path) -> None:
    build = facts(path)
    found = lint_unit(path.read_text(), build, path.name)
    assert [item for item in found if item.verdict is Verdict.BLOCK] == []
    if build is not None or "llamacpp" in path.name:
        assert {item.rule for item in found} <= doubts(build)


def test_a_flag_without_effect_is_left_out_where_it_has_none() -> None:
    units = {
        path.name.split(".")[-2]: path.read_text() for path in GOLDEN if "super-120b." in path.name
    }
    assert "--mamba-cache-mode align" in units["eugr"]
    assert "--mamba-cache-mode" not in units["stock"]


def test_an_unknown_flag_in_a_unit_of_ours_is_found() -> None:
    path = next(path for path in GOLDEN if path.name.endswith(".stock.service"))
    text = path.read_text().replace("--gpu-memory-utilization", "--gpu-memory-utilisation")
    found = lint_unit(text, facts(path), path.name)
    assert "unknown-flag" in {item.rule for item in found if item.verdict is Verdict.BLOCK}


def unit(words: list[str], value: str) -> str:
    """A unit with these words and this value, quoted as sparkwright quotes them."""
    parts = [environment("SETTING", value), f"ExecStart={exec_line(['/opt/x', *words])}"]
    return "\n".join(["[Service]", *parts]) + "\n"


@settings(max_examples=200, deadline=None)
@given(st.lists(TEXT, min_size=1, max_size=5), TEXT)
def test_rendered_words_come_back(words: list[str], value: str) -> None:
    lines = systemd.read(of_file(unit(words, value), "x.service"))
    parts = next(systemd.exec_lines(lines.directives[1].value)).words
    assert [systemd.plain(part.text) for part in parts[1:]] == words


@settings(max_examples=200, deadline=None)
@given(st.lists(TEXT, min_size=1, max_size=5), TEXT)
def test_quoting_is_clean(words: list[str], value: str) -> None:
    """An x before each: a word that begins with ~, { or # is a mistake of its own."""
    text = unit([f"x{word}" for word in words], f"x{value}")
    report = lint_text("x.service", text, newest(), Kind.UNIT)
    assert [f for f in report.findings if f.verdict is Verdict.BLOCK] == []
