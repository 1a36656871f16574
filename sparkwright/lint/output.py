"""Findings for people, as JSON, and as SARIF 2.1.0."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Final

from sparkwright.lint.findings import Finding, Verdict
from sparkwright.lint.registry import rules

_COLOURS: Final = {Verdict.BLOCK: "31;1", Verdict.WARN: "33", Verdict.NOTE: "36"}
_LEVELS: Final = {Verdict.BLOCK: "error", Verdict.WARN: "warning", Verdict.NOTE: "note"}
_HELP: Final = "docs/lint/{rule}.md"
_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"


def printable(text: str) -> str:
    """Text that any terminal shows: control characters and bad bytes as escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def text(findings: Sequence[Finding], *, colour: bool) -> str:
    """One block a file, one paragraph a finding."""
    lines: list[str] = []
    for file, group in itertools.groupby(findings, key=lambda item: item.file):
        lines += [_paint(printable(file), "1", colour)]
        for item in group:
            lines += _paragraph(item, colour)
        lines.append("")
    return "\n".join(lines)


def _paragraph(item: Finding, colour: bool) -> list[str]:
    word = _paint(f"{item.verdict:<5}", _COLOURS[item.verdict], colour)
    lines = [f"  {item.line}:{item.column}  {word}  {printable(item.message)}  [{item.rule}]"]
    indent = " " * 9
    if item.sees:
        lines.append(f"{indent}sees: {printable(item.sees)}")
    lines.append(f"{indent}fix:  {printable(item.fix)}")
    lines.append(f"{indent}why:  {printable(item.source)}; {_HELP.format(rule=item.rule)}")
    return lines


def _paint(shown: str, code: str, colour: bool) -> str:
    return f"\x1b[{code}m{shown}\x1b[0m" if colour else shown


def summary(findings: Sequence[Finding], files: int, cannot: Mapping[str, str]) -> str:
    """The last line for people."""
    counts = {verdict: sum(f.verdict is verdict for f in findings) for verdict in Verdict}
    shown = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    extra = f", {len(cannot)} could not be linted" if cannot else ""
    return f"{files} file(s): {shown}{extra}"


def as_json(findings: Sequence[Finding]) -> str:
    """A list of objects, one a finding."""
    return json.dumps([asdict(item) for item in findings], indent=1)


def as_sarif(findings: Sequence[Finding]) -> str:
    """One run of SARIF 2.1.0 (OASIS), as code scanning services read it."""
    known = [
        {
            "id": rule.id,
            "shortDescription": {"text": rule.summary},
            "helpUri": _HELP.format(rule=rule.id),
            "defaultConfiguration": {"level": _LEVELS[rule.verdicts[0]]},
        }
        for rule in rules().values()
    ]
    driver = {"name": "sparkwright lint", "rules": known}
    run = {"tool": {"driver": driver}, "results": [_result(item) for item in findings]}
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1)


def _result(item: Finding) -> dict[str, object]:
    region = {"startLine": item.line, "startColumn": item.column}
    place = {"artifactLocation": {"uri": item.file}, "region": region}
    shown = ". ".join(part for part in (item.message, f"Fix: {item.fix}") if part)
    return {
        "ruleId": item.rule,
        "level": _LEVELS[item.verdict],
        "message": {"text": printable(shown)},
        "locations": [{"physicalLocation": place}],
    }
