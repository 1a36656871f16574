"""From pieces to words: brace expansion and splitting at spaces, as bash does them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from sparkwright.lint.model import At, Word
from sparkwright.lint.parse.shell_values import Bit
from sparkwright.lint.text import UNKNOWN


def braces(bits: list[Bit]) -> list[list[Bit]]:
    """`{a,b}` outside of quotes: one word for each part (bash, "Brace Expansion")."""
    opened = [i for i, b in enumerate(bits) if b.literal and not b.quoted and "{" in (b.text or "")]
    closed = [i for i, b in enumerate(bits) if b.literal and not b.quoted and "}" in (b.text or "")]
    if not opened or not closed:
        return [bits]
    flat = [piece for bit in bits for piece in _split_literal(bit)]
    texts = [b.text if b.literal and not b.quoted else None for b in flat]
    if "{" not in texts or "}" not in texts:
        return [flat]
    start, end = texts.index("{"), len(texts) - 1 - texts[::-1].index("}")
    inside, depth = flat[start + 1 : end], 0
    parts: list[list[Bit]] = [[]]
    for bit in inside:
        text = bit.text if bit.literal and not bit.quoted else None
        depth += {"{": 1, "}": -1}.get(text or "", 0)
        if text == "," and depth == 0:
            parts.append([])
        else:
            parts[-1].append(bit)
    if len(parts) == 1:
        return [flat]
    return [flat[:start] + part + flat[end + 1 :] for part in parts]


def _split_literal(bit: Bit) -> Iterator[Bit]:
    if not bit.literal or bit.quoted or bit.text is None:
        yield bit
        return
    offset = 0
    for text in re.findall(r"[{},]|[^{},]+", bit.text):
        at = At(bit.at.file, bit.at.line, bit.at.column + (offset if bit.exact else 0))
        yield Bit(text, at, bit.exact, literal=True)
        offset += len(text)


def fields(lists: Iterable[list[Bit]], raw: str, at: At) -> Iterator[Word]:
    """Words out of pieces: unquoted values are split at spaces, arrays give their own words."""
    for bits in lists:
        if len(bits) == 1 and bits[0].array is not None:
            yield from bits[0].array
            continue
        word: list[Bit] = []
        for bit in bits:
            if bit.quoted or bit.literal or bit.text is None or not bit.text.split():
                if bit.text != "" or bit.quoted or bit.literal:
                    word.append(bit)
                continue
            pieces = list(_pieces(bit))
            if bit.text[0].isspace() and word:
                yield _word(word, raw, at)
                word = []
            for piece in pieces[:-1]:
                yield _word([*word, piece], raw, at)
                word = []
            word.append(pieces[-1])
            if bit.text[-1].isspace():
                yield _word(word, raw, at)
                word = []
        if word:
            yield _word(word, raw, at)


def _pieces(bit: Bit) -> Iterator[Bit]:
    for match in re.finditer(r"\S+", bit.text or ""):
        column = bit.at.column + (match.start() if bit.exact else 0)
        place = At(bit.at.file, bit.at.line, column)
        yield Bit(match[0], place, bit.exact, False, bit.maybe, bit.unless)


def _word(bits: list[Bit], raw: str, at: At) -> Word:
    spots, pattern = [], ""
    for bit in bits:
        spots.append((len(pattern), bit.at))
        pattern += UNKNOWN if bit.text is None or bit.array is not None else bit.text
    known = UNKNOWN not in pattern
    maybe = [bit.maybe for bit in bits]
    many = any((bit.text is None and not bit.quoted) or bit.array is not None for bit in bits)
    unless = next((bit.unless for bit in bits if bit.unless), "")
    globbed = any(bit.text and not bit.quoted and re.search(r"[*?]", bit.text) for bit in bits)
    # A word out of a variable stands where its text is written; so it is found where to mend it.
    place = bits[0].at if "$" in raw and pattern != raw else at
    if known and not globbed and (all(maybe) or not any(maybe)):
        return Word(pattern, raw, place, False, all(maybe), unless, pattern, tuple(spots))
    if raw.startswith("~"):
        return Word(None, raw, at, False, all(maybe), unless, UNKNOWN + raw.lstrip("~"), ())
    return Word(None, raw, place, many, all(maybe), unless, pattern, tuple(spots))
