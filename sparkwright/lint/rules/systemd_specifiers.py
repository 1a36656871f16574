"""Percent signs: systemd replaces `%x` in units, and in unit files only."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from sparkwright.lint.context import Context
from sparkwright.lint.findings import Found, Verdict
from sparkwright.lint.model import Document, How
from sparkwright.lint.parse.systemd import env_words
from sparkwright.lint.registry import file_rule
from sparkwright.lint.rules.systemd_reading import SYSTEMD, exec_words

# systemd src/core/unit-printf.c and src/shared/specifier.h, v255; %D and %O came with 256.
_KNOWN: Final = frozenset("aAbBcCdDEfgGhHiIjJlLmMnNoOpPqrRsStTuUvVwWyY")
_MEANS: Final = {
    "s": "a login shell", "d": "the credentials directory", "H": "the host's name", "i": "the "
    "instance", "f": "the unit's path", "m": "the machine's id", "S": "/var/lib", "Y": "the unit's "
    "directory", "M": "the image's id", "e": "nothing", "E": "/etc", "C": "/var/cache",
}  # fmt: skip


@dataclass(frozen=True)
class _Percent:
    """A percent sign that was not meant for systemd: `%x` at an offset, and why."""

    start: int
    pair: str
    known: bool
    what: str


def _meant_otherwise(text: str) -> _Percent | None:
    """The first `%x` of a word that systemd reads and the writer did not mean for it."""
    for match in re.finditer(r"%(.)?", text, re.S):
        letter = match[1] or ""
        if not re.fullmatch(r"[A-Za-z0-9]", letter):
            continue
        known = letter in _KNOWN
        before = text[: match.start()]
        what = ""
        if before.endswith("{"):
            what = "the beginning of a template's tag"
        elif not known:
            what = "a specifier that systemd does not know"
        elif "://" in before and re.match(r"%[0-9A-Fa-f]{2}", text[match.start() :]):
            what = "a percent-encoded character"
        elif re.search(r"\+$|%[A-Za-z][-_:T.]?$", before) and letter in "YmdHMSsFTjaAbBeIpyu":
            what = "a date format"
        elif letter == "s":
            what = "the user's shell"
        if what:
            return _Percent(match.start(), match[0], known, what)
    return None


def _pairs(text: str) -> str:
    """The text with `%%` blanked out, so that offsets stay."""
    return text.replace("%%", "\0\0")


@file_rule(Verdict.BLOCK)
def exec_percent(doc: Document, ctx: Context) -> Iterator[Found]:
    """A single percent sign in an Exec line is read by systemd.

    `{%set` becomes `{/bin/bashet` or the like, `{%if` becomes `{f`, `{%for` becomes the path of
    the unit, all without a word; `{%x` is fatal. `{% set` with a blank passes, which is why it
    worked last time.

    Bad:
        ExecStart=/opt/llama/llama-server --chat-template "{%set x=1%}{%if a%}"

    Good:
        ExecStart=/opt/llama/llama-server --chat-template-file /srv/llm/template.jinja

    Source: systemd.unit(5) "Specifiers"; systemd/systemd#36248 (tried: systemd 252, 257)
    """
    for word in exec_words(doc):
        wrong = _meant_otherwise(_pairs(word.piece.text)) if "%" in word.piece.text else None
        if wrong is None:
            continue
        offset = max(word.raw.find(wrong.pair), 0)
        becomes = "the unit is not started"
        if wrong.known:
            becomes = f"systemd puts {_MEANS.get(wrong.pair[1], 'a text of its own')} there"
        fix = f"double it: {_around(word.piece.text, wrong)}"
        if wrong.what.startswith("the beginning"):
            fix = "put the template into a file and pass --chat-template-file, or double every %"
        yield Found(
            word.directive.place(word.piece.start + offset),
            f"{wrong.pair} is {wrong.what}: {becomes}", fix,
            sees=_around(word.piece.text, wrong, "…"),
        )  # fmt: skip


def _around(text: str, wrong: _Percent, instead: str = "") -> str:
    """The text with that pair (and every other single one) doubled, or replaced."""
    if instead:
        return text[: wrong.start] + instead + text[wrong.start + 2 :]
    return re.sub(r"%%|%", "%%", text)


@file_rule(Verdict.BLOCK)
def environment_percent(doc: Document, ctx: Context) -> Iterator[Found]:
    """A single percent sign in Environment= is read by systemd.

    With `%40` in a proxy's password the whole assignment is dropped and the service runs without
    a proxy. With `%s` in it a shell's path is put there, without a word.

    Bad:
        Environment=HTTPS_PROXY=http://svc:p%40ss@proxy.lan:3128

    Good:
        Environment=HTTPS_PROXY=http://svc:p%%40ss@proxy.lan:3128

    Source: systemd.exec(5) Environment=; systemd/systemd#9842 (tried: systemd 252, 257)
    """
    for directive in doc.directives:
        if doc.kind not in SYSTEMD or directive.key != "Environment" or "%" not in directive.value:
            continue
        for piece in env_words(directive).words:
            wrong = _meant_otherwise(_pairs(piece.text))
            if wrong is None:
                continue
            raw = directive.value[piece.start : piece.end]
            becomes = "the whole assignment is dropped"
            if wrong.known:
                becomes = f"systemd puts {_MEANS.get(wrong.pair[1], 'a text of its own')} there"
            yield Found(
                directive.place(piece.start + max(raw.find(wrong.pair), 0)),
                f"{wrong.pair} is {wrong.what}: {becomes}",
                f"double every %: {re.sub(r'%%|%', '%%', raw)}",
                sees=_around(piece.text, wrong, "…") if wrong.known else "",
            )  # fmt: skip


@file_rule(Verdict.BLOCK)
def envfile_percent(doc: Document, ctx: Context) -> Iterator[Found]:
    """Percent signs are not doubled in an EnvironmentFile.

    Only unit files have specifiers. The service gets both signs, and a password with `%%40` is
    another password.

    Bad:
        HTTPS_PROXY=http://svc:p%%40ss@proxy.lan:3128

    Good:
        HTTPS_PROXY=http://svc:p%40ss@proxy.lan:3128

    Source: systemd.exec(5) EnvironmentFile=; systemd/systemd#9842
    """
    for item in doc.assignments:
        if item.how in (How.ENVFILE, How.DOCKER_FILE) and "%%" in (item.value or ""):
            value = item.value or ""
            if re.search(r"%%[0-9A-Fa-f]{2}", value):
                yield Found(
                    item.at, f"{item.name} gets both percent signs of %%",
                    f"write one: {item.name}={value.replace('%%', '%')}", sees=value,
                )  # fmt: skip
