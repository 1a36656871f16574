"""The options of a launch: long names and their values, as the engine's own parser reads them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from sparkwright.engine_facts import EngineFacts
from sparkwright.lint.model import Engine, Launch, Word
from sparkwright.lint.short_names import SHORT


@dataclass(frozen=True)
class Option:
    """One option.

    + name: long name without dashes, `_` as `-`; the spelled name when it is no known short one
    + spelled: the word that names it; value: its value or None (bare, or not told)
    + dotted: the rest of `--quantization-config.moe.activation`, "" for others
    + words: every word that belongs to it
    + glued: the value stands behind "=" in the same word
    """

    name: str
    spelled: Word
    value: Word | None
    dotted: str = ""
    words: tuple[Word, ...] = ()
    glued: bool = False

    @property
    def text(self) -> str | None:
        """The value's text, None when there is none or it cannot be told."""
        return self.value.text if self.value else None


# Bare in every release of vLLM; the next word is no value of theirs. Used without facts only.
_BARE: Final = frozenset(
    {"enable-prefix-caching", "enforce-eager", "trust-remote-code", "async-scheduling"}
    | {"enable-auto-tool-choice", "disable-log-stats", "disable-log-requests", "headless"}
    | {"enable-chunked-prefill", "enable-expert-parallel", "language-model-only"}
)


def is_option(word: Word) -> bool:
    """Whether a word is an option: not a negative number, not a lone dash."""
    text = word.text
    return text is not None and text[:1] == "-" and re.match(r"-+[A-Za-z]", text) is not None


def options_of(launch: Launch, facts: EngineFacts | None) -> tuple[Option, ...]:
    """Every option of a launch in order; `facts` tell which take a value."""
    return tuple(_options(launch, facts))


def _options(launch: Launch, facts: EngineFacts | None) -> Iterator[Option]:
    argv = launch.argv
    for at, word in enumerate(argv):
        if not is_option(word):
            continue
        head, equals, rest = (word.text or "").partition("=")
        name, dotted = _name(head, launch.engine)
        value: Word | None = None
        if equals:
            value = Word(rest, word.raw.partition("=")[2], word.at)
        elif _takes(name, dotted, facts) and at + 1 < len(argv) and not is_option(argv[at + 1]):
            value = argv[at + 1]
        if launch.engine is Engine.VLLM and (level := re.fullmatch(r"-O=?(\w+)", word.text or "")):
            value, equals = Word(level[1], level[1], word.at), "="  # -O3 is -O 3
        words = (word,) if equals or value is None else (word, value)
        yield Option(name, word, value, dotted, words, bool(equals))


def _name(head: str, engine: Engine) -> tuple[str, str]:
    short, _, key = head.partition(".")
    long = SHORT.get(engine, {}).get(short)
    if long is not None and not head.startswith("--"):
        return long, key
    if engine is Engine.VLLM and re.match(r"-O\w", head):
        return "optimization-level", ""  # -O3 is -O 3
    name, _, dotted = head.lstrip("-").partition(".")
    return name.replace("_", "-"), dotted


def _takes(name: str, dotted: str, facts: EngineFacts | None) -> bool:
    flag = facts.flags.get(name) if facts and not dotted else None
    if flag is not None:
        return flag.value is not False
    return name not in _BARE
