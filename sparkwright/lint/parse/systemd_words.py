"""Words of systemd's values: quotes, escapes, prefixes, specifiers and variables.

Written after systemd's src/basic/extract-word.c and systemd.service(5) "Command lines"; the
behaviour of 252 was tried.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from sparkwright.lint.places import Directive, kept

_SPACE: Final = " \t\n\r"
# By the quote that is open: what means nothing but itself.
_PLAIN: Final = {
    "": re.compile(r"[^ \t\n\r\\\"']+"),
    '"': re.compile(r"[^\\\"]+"),
    "'": re.compile(r"[^\\']+"),
}


_SIMPLE: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


_SIMPLE_TOO: Final = {"\\": "\\", '"': '"', "'": "'", "s": " "}


_CODES: Final = ((r"x([0-9a-fA-F]{2})", 16), (r"u([0-9a-fA-F]{4})", 16))


_MORE_CODES: Final = ((r"U([0-9a-fA-F]{8})", 16), (r"([0-7]{3})", 8))


@dataclass(frozen=True)
class Piece:
    """One word of a value: text after unquoting, start and end are offsets in the value."""

    text: str
    start: int
    end: int
    quoted: bool = False


@dataclass(frozen=True)
class Split:
    """The words of a value; trouble says why the rest of it is passed over, "" when it is not."""

    words: tuple[Piece, ...]
    trouble: str = ""
    at: int = 0


def split(value: str, *, strict: bool = False) -> Split:
    """Words as Exec…= and Environment= get them (EXTRACT_UNQUOTE | EXTRACT_CUNESCAPE).

    + strict: an escape that is none ends the value, as in Environment=; Exec…= keeps the backslash
      and logs it. The words before it count in both (tried: systemd 252).
    """
    words: list[Piece] = []
    at = 0
    while True:
        while at < len(value) and value[at] in _SPACE:
            at += 1
        if at >= len(value):
            return Split(tuple(words))
        start, text, quote, quoted = at, [], "", False
        while at < len(value) and (quote or value[at] not in _SPACE):
            if plain := _PLAIN[quote].match(value, at):
                text.append(plain[0])
                at = plain.end()
                continue
            char = value[at]
            if char == "\\":
                added, used = _unescape(value, at)
                if strict and used == 1:
                    known = f"{value[at : at + 2]} is no escape that systemd knows"
                    return Split(tuple(words), known, at)
                text.append(added)
                at += used
                continue
            if quote and char == quote:
                quote = ""
            elif not quote and char in "\"'":
                quote, quoted = char, True
            else:
                text.append(char)
            at += 1
        if quote:
            return Split(tuple(words), "a quote is not closed", start)
        words.append(Piece("".join(text), start, at, quoted))


def _unescape(value: str, at: int) -> tuple[str, int]:
    """(text, length) of the escape at a backslash; an unknown one is the backslash, length 1."""
    rest = value[at + 1 : at + 10]
    if rest[:1] in _SIMPLE or rest[:1] in _SIMPLE_TOO:
        return (_SIMPLE | _SIMPLE_TOO)[rest[0]], 2
    for pattern, base in (*_CODES, *_MORE_CODES):
        match = re.match(pattern, rest)
        if match and 0 < int(match[1], base) < (0x110000 if base == 16 else 256):
            return chr(int(match[1], base)), 1 + match.end()
    return "\\", 1


_PREFIXES: Final = "-@:+!|"


@dataclass(frozen=True)
class ExecLine:
    """One command of an Exec…= line.

    + prefixes: of the program ("+", "-", …)
    + words: program first; "$" and "%" as they stand
    """

    prefixes: str
    words: tuple[Piece, ...]
    trouble: str = ""


def env_words(line: Directive) -> Split:
    """The words of an Environment= line, split once."""
    return kept(line, "_env_words", lambda: split(line.value, strict=True))


def exec_parts(line: Directive) -> tuple[ExecLine, ...]:
    """The commands of an Exec…= line, split once."""
    return kept(line, "_exec_parts", lambda: tuple(exec_lines(line.value)))


def exec_lines(value: str) -> Iterator[ExecLine]:
    """The commands of an Exec…= value: usually one, more with a lone ";" between them."""
    parts = split(value)
    group: list[Piece] = []
    for word in parts.words:
        if word.text == ";" and not word.quoted and value[word.start : word.end] == ";":
            if group:
                yield _exec(group, "")
            group = []
        else:
            group.append(word)
    if group or parts.trouble:
        yield _exec(group, parts.trouble)


def _exec(group: list[Piece], trouble: str) -> ExecLine:
    if not group:
        return ExecLine("", (), trouble)
    first = group[0]
    bare = first.text.lstrip(_PREFIXES)
    prefixes = first.text[: len(first.text) - len(bare)]
    start = first.start + (len(prefixes) if not first.quoted else 0)
    program = Piece(bare, start, first.end, first.quoted)
    return ExecLine(prefixes, (program, *group[1:]), trouble)


_VARIABLE: Final = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}|\$[A-Za-z_][A-Za-z0-9_]*|\$\$")


_SPECIFIER: Final = re.compile(r"%.")


def specifiers(text: str) -> list[str]:
    """The "%x" pairs of a word, "%%" left out."""
    return [pair for pair in _SPECIFIER.findall(text) if pair != "%%"]


def variables(text: str) -> list[str]:
    """The "$X" and "${X}" of a word that systemd replaces, "$$" left out."""
    return [name for name in _VARIABLE.findall(text) if name != "$$"]


def plain(text: str) -> str | None:
    """A word as the program gets it; None when a specifier or variable is in it."""
    if specifiers(text) or variables(text):
        return None
    return text.replace("%%", "%").replace("$$", "$")
