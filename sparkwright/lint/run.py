"""One lint of a set of files: documents, findings, and what could not be linted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

from sparkwright.engine_facts import EngineFacts
from sparkwright.lint import documents, kinds, source
from sparkwright.lint.context import Build, Context, newest
from sparkwright.lint.documents import Files
from sparkwright.lint.findings import Finding, Verdict
from sparkwright.lint.model import Document, Kind
from sparkwright.lint.parse import systemd, unit
from sparkwright.lint.registry import judge
from sparkwright.lint.source import CannotLint, Source
from sparkwright.lint.text import of_file

CLEAN, BLOCKED, CANNOT = 0, 1, 2


@dataclass(frozen=True)
class Report:
    """What a lint says.

    + cannot: file -> why it could not be linted
    + documents: what was read, for those who ask further
    """

    findings: tuple[Finding, ...]
    cannot: Mapping[str, str]
    documents: tuple[Document, ...] = ()

    def without_unknown(self) -> Report:
        """Leave out complaints about files of no known kind."""
        left = {path: why for path, why in self.cannot.items() if why != documents.NO_KIND}
        return replace(self, cannot=left)

    def code(self, *, strict: bool = False) -> int:
        """0 clean, 1 a BLOCK (with strict a WARN too), 2 a file that could not be linted."""
        if self.cannot:
            return CANNOT
        bad = {Verdict.BLOCK, Verdict.WARN} if strict else {Verdict.BLOCK}
        return BLOCKED if any(item.verdict in bad for item in self.findings) else CLEAN


def lint(paths: Sequence[str], ctx: Context, kind: Kind | None = None) -> Report:
    """Lint files together: an EnvironmentFile among them is read for the unit that names it."""
    cannot: dict[str, str] = {}
    sources: dict[str, Source] = {}
    for path in dict.fromkeys(paths):
        try:
            sources[path] = source.read(path)
        except CannotLint as error:
            cannot[path] = str(error)
    return lint_sources(sources, ctx, kind, cannot)


def lint_text(name: str, text: str, ctx: Context, kind: Kind | None = None) -> Report:
    """Lint a text that is no file yet, such as a unit before it is written."""
    return lint_sources({name: source.decode(name, text.encode())}, ctx, kind)


def lint_sources(
    sources: Mapping[str, Source],
    ctx: Context,
    kind: Kind | None = None,
    cannot: Mapping[str, str] | None = None,
) -> Report:
    """Lint what was read already."""
    failed = dict(cannot or {})
    files = Files(dict(sources))
    _dropins(files)
    found: list[Document] = []
    for path, item in sources.items():
        try:
            found += documents.of_source(item, kind, files)
        except CannotLint as error:
            failed[path] = str(error)
    return Report(tuple(judge(found, ctx)), failed, tuple(found))


def _dropins(files: Files) -> None:
    """Directives of drop-ins by their unit's name, in the order in which systemd applies them."""
    for path in sorted(files.sources, key=lambda path: PurePath(path).name):
        if kinds.by_name(path) is Kind.DROPIN:
            lines = systemd.read(of_file(files.sources[path].text, path))
            place = str(PurePath(path).parent.parent)
            here = files.dropins.setdefault(unit.unit_name(path), [])
            here.append((place, list(lines.directives)))


def lint_unit(text: str, facts: EngineFacts | None, name: str = "unit.service") -> list[Finding]:
    """Findings of a unit of ours, for a converge: notes are left out.

    + facts: of the engine that it starts, as installed on the machine; None when it is not known
    + name: the unit's file name
    """
    report = lint_text(name, text, own_context(facts), Kind.UNIT)
    return [item for item in report.findings if item.verdict is not Verdict.NOTE]


def own_context(facts: EngineFacts | None) -> Context:
    """The context of a file of our own making, on a build that is known or not."""
    ctx = replace(newest(), own=True)
    if facts is None:
        return ctx
    if facts.engine == "vllm":
        return replace(ctx, vllm=Build(facts), told=True)
    return replace(ctx, llama=Build(facts))
