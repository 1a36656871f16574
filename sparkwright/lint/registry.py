"""The list of rules. A module of `rules/` registers its functions with one of three decorators.

A rule is a function with a docstring, from which its page in docs/lint/ is made:

    @launch_rule(Verdict.BLOCK)
    def swap_space(launch: Launch, doc: Document, ctx: Context) -> Iterator[Found]:
        \"\"\"`--swap-space` is gone since vLLM 0.18.

        Why it matters, in a paragraph or two.

        Bad:
            vllm serve /srv/m --swap-space 16

        Good:
            vllm serve /srv/m

        Source: vllm-project/vllm#27984
        \"\"\"

The rule's id is the function's name with "-" for "_"; its cases are in
tests/lint/cases/<module>/<id>.yaml.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from sparkwright.lint import rules as rules_package
from sparkwright.lint.context import Context
from sparkwright.lint.findings import Finding, Found, Verdict
from sparkwright.lint.model import Document, Launch

Run = Callable[[Sequence[Document], Context], Iterator[Found]]
LaunchRule = Callable[[Launch, Document, Context], Iterable[Found]]
FileRule = Callable[[Document, Context], Iterable[Found]]
FilesRule = Callable[[Sequence[Document], Context], Iterable[Found]]


@dataclass(frozen=True)
class Rule:
    """One rule: id, family (its module), verdicts it can give (the first is the usual one)."""

    id: str
    family: str
    verdicts: tuple[Verdict, ...]
    summary: str
    why: str
    bad: str
    good: str
    source: str
    run: Run


_RULES: dict[str, Rule] = {}


def launch_rule(*verdicts: Verdict) -> Callable[[LaunchRule], LaunchRule]:
    """A rule that is asked once for every launch of every document."""

    def register(function: LaunchRule) -> LaunchRule:
        def run(docs: Sequence[Document], ctx: Context) -> Iterator[Found]:
            for doc in docs:
                for launch in doc.launches:
                    yield from function(launch, doc, ctx)

        _add(function, verdicts, run)
        return function

    return register


def file_rule(*verdicts: Verdict) -> Callable[[FileRule], FileRule]:
    """A rule that is asked once for every document."""

    def register(function: FileRule) -> FileRule:
        def run(docs: Sequence[Document], ctx: Context) -> Iterator[Found]:
            for doc in docs:
                yield from function(doc, ctx)

        _add(function, verdicts, run)
        return function

    return register


def files_rule(*verdicts: Verdict) -> Callable[[FilesRule], FilesRule]:
    """A rule that is asked once with all documents: for what two files do together."""

    def register(function: FilesRule) -> FilesRule:
        def run(docs: Sequence[Document], ctx: Context) -> Iterator[Found]:
            yield from function(docs, ctx)

        _add(function, verdicts, run)
        return function

    return register


@functools.cache
def rules() -> dict[str, Rule]:
    """Every rule by its id, sorted; importing the modules of `rules/` fills the list."""
    for module in pkgutil.iter_modules(rules_package.__path__, rules_package.__name__ + "."):
        importlib.import_module(module.name)
    return dict(sorted(_RULES.items()))


def judge(docs: Sequence[Document], ctx: Context) -> list[Finding]:
    """Findings of all rules, in the order of files and lines, each once."""
    files = {doc.path: at for at, doc in enumerate(docs)}
    found: dict[Finding, None] = {}
    for rule in rules().values():
        for item in rule.run(docs, ctx):
            found[_finding(rule, item)] = None
    return sorted(found, key=lambda f: (files.get(f.file, len(files)), *f.order()))


def _finding(rule: Rule, item: Found) -> Finding:
    verdict = item.verdict or rule.verdicts[0]
    at = item.at
    return Finding(
        at.file, at.line, at.column, verdict, rule.id, item.message, item.sees, item.fix,
        item.source or rule.source,
    )  # fmt: skip


def _add(function: Callable[..., object], verdicts: tuple[Verdict, ...], run: Run) -> None:
    name = function.__name__.replace("_", "-")
    if name in _RULES:
        raise ValueError(f"rule {name} is there twice: {function.__module__}")
    family = function.__module__.rsplit(".", 1)[-1]
    parts = _parts(inspect.getdoc(function) or "")
    if missing := [part for part in ("summary", "bad", "good", "source") if not parts[part]]:
        raise ValueError(f"rule {name}: its docstring lacks {', '.join(missing)}")
    _RULES[name] = Rule(name, family, verdicts, run=run, **parts)


def _parts(text: str) -> dict[str, str]:
    """The docstring's parts: summary, why, bad, good, source."""
    parts = {"summary": "", "why": "", "bad": "", "good": "", "source": ""}
    summary, _, rest = text.partition("\n")
    parts["summary"], part = summary.strip(), "why"
    for line in rest.splitlines():
        if line in ("Bad:", "Good:"):
            part = line[:-1].lower()
        elif line.startswith("Source: "):
            part = "source"
            parts[part] += line.removeprefix("Source: ") + "\n"
        else:
            parts[part] += line + "\n"
    return {name: inspect.cleandoc("\n" + body).strip("\n") for name, body in parts.items()}
