"""From files to documents: each kind to its parser, texts inside of texts included."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from sparkwright.lint import kinds
from sparkwright.lint.files import Files
from sparkwright.lint.model import At, Document, Kind, Launch, Unsure
from sparkwright.lint.parse import (
    compose,
    dockerfile,
    envfile,
    recipes,
    script,
    simple,
    systemd,
    unit,
    yaml_text,
    yaml_tree,
)
from sparkwright.lint.parse.launches import Around
from sparkwright.lint.parse.shell_walked import Embedded
from sparkwright.lint.source import CannotLint, Source
from sparkwright.lint.text import Text, of_file

_YAML_KINDS: Final = frozenset(
    {Kind.COMPOSE, Kind.RECIPE, Kind.COMMAND_RECIPE, Kind.GUIDE_RECIPE, Kind.VLLM_CONFIG}
)
# A script that writes a script that writes a unit: deeper ones are not followed.
_DEPTH: Final = 3
NO_KIND: Final = "is of no kind known here; say which with --kind"


def of_source(item: Source, kind: Kind | None, files: Files) -> list[Document]:
    """The documents of one file; raises CannotLint."""
    text = of_file(item.text, item.path)
    if item.crlf:
        text = of_file(item.text.replace("\r\n", "\n"), item.path)
    kind = kind or kinds.by_name(item.path) or _by_content(item)
    if kind is None:
        raise CannotLint(NO_KIND)
    return list(_documents(text, item, kind, files, 0))


def _by_content(item: Source) -> Kind | None:
    if not kinds.YAML.search(item.path):
        return kinds.by_content(item.path, item.text)
    roots = _yaml(of_file(item.text, item.path), item.path)
    return kinds.of_yaml(roots[0]) if roots else None


def _yaml(text: Text, path: str) -> list[yaml_tree.Node]:
    try:
        return yaml_tree.load(text, path)
    except yaml_tree.YamlTrouble as error:
        raise CannotLint(f"line {error.at.line}: {error.what}; mend it first") from error


def _documents(
    text: Text, item: Source, kind: Kind, files: Files, depth: int
) -> Iterator[Document]:
    embedded: Sequence[Embedded] = ()
    if kind in (Kind.UNIT, Kind.DROPIN):
        yield _unit(text, item, kind, files)
    elif kind is Kind.SCRIPT:
        made = script.read(text, files.reader(item.path))
        embedded = made.embedded
        yield _of_script(made, text, item, kind)
    elif kind in _YAML_KINDS:
        yield from _of_yaml(text, item, kind, files)
    elif kind is Kind.DOCKERFILE:
        yield _dockerfile(text, item, files)
    elif kind is Kind.MARKDOWN:
        yield Document(item.path, kind, item.text, crlf=item.crlf, bom=item.bom)
        for inner, part in simple.blocks(text):
            try:
                found = list(_inside(_documents(part, item, inner, files, depth + 1), item))
                yield from (replace(one, facts={**one.facts, "guide": "yes"}) for one in found)
            except CannotLint:
                continue  # an example that is no YAML is a picture, not a file
    else:
        yield _simple(text, item, kind)
    for inside in embedded if depth < _DEPTH else ():
        yield from _embedded(inside, item, files, depth)


def _embedded(part: Embedded, item: Source, files: Files, depth: int) -> Iterator[Document]:
    """A file that a script writes, or a script that it runs."""
    kind = Kind.SCRIPT if not part.target else kinds.by_name(part.target)
    if kind is None and not kinds.YAML.search(part.target):
        kind = kinds.by_content(part.target, part.text.text)
    if kind is None and "services:" in part.text.text:
        kind = Kind.COMPOSE
    if kind is None or kind is Kind.MARKDOWN:
        return
    try:
        found = list(_inside(_documents(part.text, item, kind, files, depth + 1), item))
    except CannotLint:
        return
    for document in found:
        name = unit.unit_name(part.target) if kind in (Kind.UNIT, Kind.DROPIN) else ""
        yield replace(document, unit=name or document.unit)


def _inside(found: Iterator[Document], item: Source) -> Iterator[Document]:
    """Documents that are only a part of a file."""
    return (replace(one, whole=item.text, facts={**one.facts, "embedded": "yes"}) for one in found)


def _unit(text: Text, item: Source, kind: Kind, files: Files) -> Document:
    lines = systemd.read(text)
    name = unit.unit_name(item.path)
    more = files.drop_ins(item.path) if kind is Kind.UNIT else []
    found = unit.read(lines, files.reader(item.path), more)
    return Document(
        item.path, kind, text.text, lines.directives, (), found.commands, found.assignments,
        found.launches, found.unsure, name, item.crlf, item.bom, lines.headers, lines.passed_over,
    )  # fmt: skip


def _of_script(made: script.Script, text: Text, item: Source, kind: Kind) -> Document:
    return Document(
        item.path, kind, text.text, commands=made.commands, assignments=made.assignments,
        launches=made.launches, unsure=made.unsure, crlf=item.crlf, bom=item.bom,
    )  # fmt: skip


def _of_yaml(text: Text, item: Source, kind: Kind, files: Files) -> Iterator[Document]:
    roots = _yaml(text, item.path)
    lines = text.text.split("\n")
    for root in roots[:1]:
        yield from _yaml_document(root, lines, text, item, kind, files)


def _yaml_document(
    root: yaml_tree.Node, lines: list[str], text: Text, item: Source, kind: Kind, files: Files
) -> Iterator[Document]:
    reader = files.reader(item.path)
    found: list[Launch] = []
    parts: list[script.Script] = []
    if kind is Kind.COMPOSE:

        def nested(inner: Text, inside: Around) -> Iterator[Launch]:
            made = script.read(inner, reader, inside)
            parts.append(made)
            return iter(made.launches)

        found = list(compose.Compose(root, lines, reader).launches(nested))
    elif kind is Kind.COMMAND_RECIPE:
        parts = list(recipes.command_recipe(root, lines, reader))
        found = [one for part in parts for one in part.launches]
    else:
        make = {Kind.RECIPE: recipes.ours, Kind.VLLM_CONFIG: recipes.vllm_config}
        found = list(make.get(kind, recipes.guide_recipe)(root, lines))
    values = [one for launch in found for one in launch.env]
    made_in = [one for part in parts for one in part.assignments]
    facts = {k.value: v.value for k, v in root.items if k is not None and v.kind == "scalar"}
    yield Document(
        item.path, kind, text.text, keys=tuple(yaml_text.keys(root)),
        commands=tuple(c for part in parts for c in part.commands),
        assignments=tuple(dict.fromkeys([*values, *made_in])), launches=tuple(found),
        crlf=item.crlf, bom=item.bom, facts=facts,
    )  # fmt: skip


def _dockerfile(text: Text, item: Source, files: Files) -> Document:
    made = dockerfile.read(text, files.reader(item.path))
    return Document(
        item.path, Kind.DOCKERFILE, text.text, commands=made.commands,
        assignments=made.assignments, launches=made.launches, crlf=item.crlf, bom=item.bom,
    )  # fmt: skip


def _simple(text: Text, item: Source, kind: Kind) -> Document:
    made = Document(item.path, kind, text.text, crlf=item.crlf, bom=item.bom)
    if kind is Kind.ENVFILE:
        return replace(made, assignments=tuple(envfile.systemd_items(text)))
    if kind is Kind.PRESETS:
        return replace(made, launches=tuple(simple.presets(text)))
    return replace(made, keys=tuple(simple.limits(text)))


def unsure_of(item: Source) -> tuple[Unsure, ...]:
    """What a file's bytes alone leave open."""
    if item.bad_bytes is None:
        return ()
    line, column = item.bad_bytes
    return (Unsure(At(item.path, line, column), "a byte that is not UTF-8"),)
