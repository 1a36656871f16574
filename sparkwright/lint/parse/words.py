"""Words of a command line that no shell reads: shlex's POSIX rules, with places."""

from __future__ import annotations

from sparkwright.lint.model import Word
from sparkwright.lint.text import UNKNOWN, Text


def split(source: Text) -> tuple[Word, ...]:
    """Quotes and backslashes as in shlex.split; a quote that is not closed ends with the text."""
    text, at = source.text, 0
    words: list[Word] = []
    while True:
        while at < len(text) and text[at].isspace():
            at += 1
        if at >= len(text):
            return tuple(words)
        start, out, quote = at, "", ""
        while at < len(text) and (quote or not text[at].isspace()):
            char = text[at]
            if char == quote:
                quote = ""
            elif not quote and char in "\"'":
                quote = char
            elif char == "\\" and quote != "'" and at + 1 < len(text):
                at += 1
                out += text[at] if not quote or text[at] in '"\\' else "\\" + text[at]
            else:
                out += char
            at += 1
        words.append(word(out, text[start:at], source, start))


def word(text: str, raw: str, source: Text, offset: int) -> Word:
    """One word; None as its text when a part of it cannot be told."""
    at = source.at(offset)
    exact = source.part(offset, offset + len(raw)).marks if text == raw else ((0, at),)
    known = None if UNKNOWN in text else text
    return Word(known, raw, at, UNKNOWN in raw and raw == UNKNOWN, pattern=text, spots=exact)
