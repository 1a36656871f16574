"""The options of a launch: long names and their values, as the engine's own parser reads them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from sparkwright.engine_facts import EngineFacts
from sparkwright.lint.model import Engine, Launch, Word


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


# Short names of vLLM 0.33.0 (vllm/engine/arg_utils.py, add_cli_args) and of llama-server
# (common/arg.cpp at b11312), as far as rules ask for them.
SHORT: Final[Mapping[Engine, Mapping[str, str]]] = {
    Engine.VLLM: {
        "-tp": "tensor-parallel-size",
        "-pp": "pipeline-parallel-size",
        "-dp": "data-parallel-size",
        "-ep": "enable-expert-parallel",
        "-q": "quantization",
        "-n": "nnodes",
        "-r": "node-rank",
        "-O": "optimization-level",
        "-cc": "compilation-config",
        "-ac": "attention-config",
        "-asc": "api-server-count",
        "-sc": "speculative-config",
        "-h": "help",
        "-v": "version",
    },
    Engine.LLAMA: {
        "-m": "model",
        "-a": "alias",
        "-c": "ctx-size",
        "-b": "batch-size",
        "-ub": "ubatch-size",
        "-fa": "flash-attn",
        "-ngl": "n-gpu-layers",
        "-np": "parallel",
        "-hf": "hf-repo",
        "-hfr": "hf-repo",
        "-mu": "model-url",
        "-t": "threads",
        "-lm": "load-mode",
        "-ctk": "cache-type-k",
        "-ctv": "cache-type-v",
    },
}
# Bare in every release of vLLM; the next word is no value of theirs. Used without facts only.
_BARE: Final = frozenset(
    {"enable-prefix-caching", "enforce-eager", "trust-remote-code", "async-scheduling"}
    | {"enable-auto-tool-choice", "disable-log-stats", "disable-log-requests", "headless"}
    | {"enable-chunked-prefill", "enable-expert-parallel", "language-model-only"}
)


def is_option(word: Word) -> bool:
    """Whether a word is an option: not a negative number, not a lone dash."""
    return word.text is not None and re.match(r"-+[A-Za-z]", word.text) is not None


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
        words = (word,) if equals or value is None else (word, value)
        yield Option(name, word, value, dotted, words, bool(equals))


def _name(head: str, engine: Engine) -> tuple[str, str]:
    long = SHORT.get(engine, {}).get(head)
    if long is not None:
        return long, ""
    name, _, dotted = head.lstrip("-").partition(".")
    return name.replace("_", "-"), dotted


def _takes(name: str, dotted: str, facts: EngineFacts | None) -> bool:
    flag = facts.flags.get(name) if facts and not dotted else None
    if flag is not None:
        return flag.value is not False
    return name not in _BARE
