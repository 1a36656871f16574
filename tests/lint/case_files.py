"""Case files: what a rule must say about a text, and what it must not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from sparkwright.lint import builds
from sparkwright.lint.context import Build, Context, newest
from sparkwright.lint.findings import Finding, Verdict
from sparkwright.lint.model import Kind
from sparkwright.lint.run import lint_sources
from sparkwright.lint.source import decode

HERE = Path(__file__).parent
CASES = HERE / "cases"
KEYS = {
    "name",
    "case",
    "for",
    "config",
    "gpus",
    "own",
    "kind",
    "file",
    "text",
    "files",
    "expect",
} | {"also"}


@dataclass(frozen=True)
class Case:
    """One text and what must be said about it."""

    family: str
    rule: str
    name: str
    raw: Mapping[str, Any]

    @property
    def files(self) -> dict[str, str]:
        """Name -> text."""
        if "files" in self.raw:
            return dict(self.raw["files"])
        return {self.raw.get("file", "serve.sh"): self.raw["text"]}

    @property
    def numbers(self) -> list[str]:
        """The entries of the list of user pain that it stands for."""
        found = self.raw.get("case", [])
        return [found] if isinstance(found, str) else list(found)


def every() -> Iterator[Case]:
    """All cases of all families."""
    for path in sorted(CASES.glob("*/*.yaml")):
        for raw in yaml.safe_load(path.read_text()):
            unknown = set(raw) - KEYS
            if unknown or "name" not in raw or "expect" not in raw:
                raise ValueError(f"{path}: {raw.get('name')}: unknown keys {unknown}, or no expect")
            yield Case(path.parent.name, path.stem, raw["name"], raw)


def context(raw: Mapping[str, Any]) -> Context:
    """The context that a case asks for."""
    made = newest()
    if "for" in raw:
        made = replace(made, vllm=Build(builds.for_version(raw["for"])), told=True)
    return replace(
        made, config=raw.get("config"), gpus=raw.get("gpus", 1), own=raw.get("own", False)
    )


def findings(case: Case) -> list[Finding]:
    """What the lint says about a case's files."""
    kind = Kind(case.raw["kind"]) if "kind" in case.raw else None
    sources = {name: decode(name, text.encode()) for name, text in case.files.items()}
    report = lint_sources(sources, context(case.raw), kind)
    if report.cannot:
        raise AssertionError(f"cannot be linted: {report.cannot}")
    return list(report.findings)


def wrong(case: Case, found: list[Finding]) -> list[str]:
    """How the findings of the case's rule differ from what is expected; [] when they do not."""
    mine = [item for item in found if item.rule == case.rule]
    expected = case.raw["expect"]
    shown = [f"{f.verdict} {f.line}:{f.column} {f.message} | {f.sees} | {f.fix}" for f in mine]
    if len(mine) != len(expected):
        return [f"{len(expected)} expected, {len(mine)} found: {shown}"]
    return [
        f"{key}: {value!r} expected, got {getattr(item, key)!r}"
        for item, want in zip(mine, expected, strict=True)
        for key, value in want.items()
        if not _fits(key, value, getattr(item, key))
    ]


def _fits(key: str, value: object, got: object) -> bool:
    if key in ("fix", "sees", "message", "source"):
        return str(value) in str(got)
    return value == got


def false_blocks(case: Case, found: list[Finding]) -> list[str]:
    """BLOCKs of other rules that the case does not name."""
    allowed = {case.rule, *case.raw.get("also", [])}
    blocks = [f for f in found if f.verdict is Verdict.BLOCK and f.rule not in allowed]
    return [f"{f.rule} {f.file}:{f.line} {f.message}" for f in blocks]
