"""What an installed engine knows: its variables, flags, values and names; what it would refuse.

The facts come from the build itself (files/opt/sparkwright/lib/introspect_*.py), never from a
table of versions: four different builds of vLLM go by that name on these machines.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sparkwright.errors import SparkwrightError
from sparkwright.vllm_history import history

# Variables that only this engine reads: an unknown one is a mistake. Others are not checked.
PREFIXES = {"vllm": "VLLM_", "llama.cpp": "LLAMA_ARG_"}
SWITCH_WORDS = frozenset({"true", "false", "on", "off", "yes", "no", "1", "0"})


@dataclass(frozen=True)
class Flag:
    """One long option.

    + choices: the values it takes; None: any, or not known
    + value: True: a value must follow; False: none may; None: it may or may not
    """

    choices: tuple[str, ...] | None = None
    value: bool | None = None


@dataclass(frozen=True)
class EngineFacts:
    """One build of an engine.

    + engine: "vllm" or "llama.cpp"
    + build: which build: vllm "stock", "T" (patch set), "C" (fork), "E" (nightly); "llama.cpp"
    + version: as the build says it
    + env: its variables, each with its allowed values or None
    + deprecated: variable -> what the build says about it
    + flags: long names without dashes; `_` is written as `-`
    + reasoning_parsers, tool_parsers, attention_backends: names it registers (vllm)
    """

    engine: str
    build: str
    version: str
    env: Mapping[str, tuple[str, ...] | None]
    deprecated: Mapping[str, str]
    flags: Mapping[str, Flag]
    reasoning_parsers: tuple[str, ...] = ()
    tool_parsers: tuple[str, ...] = ()
    attention_backends: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Engine, version and build in words, for messages."""
        shown = f" ({self.build})" if self.build != self.engine else ""
        return f"{self.engine} {self.version}{shown}"


def read_facts(text: str) -> EngineFacts:
    """Facts from what an introspection program printed.

    Raises SparkwrightError when the text is something else.
    """
    try:
        raw: dict[str, Any] = json.loads(text)
        return EngineFacts(
            engine=str(raw["engine"]),
            build=str(raw["build"]),
            version=str(raw["version"]),
            env={name: _names_of(values) for name, values in raw["env"].items()},
            deprecated={str(k): str(v) for k, v in raw["deprecated"].items()},
            flags={n: Flag(_names_of(f["choices"]), f["value"]) for n, f in raw["flags"].items()},
            reasoning_parsers=tuple(raw["reasoning_parsers"]),
            tool_parsers=tuple(raw["tool_parsers"]),
            attention_backends=tuple(raw["attention_backends"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        shown = text.strip().splitlines()[-1:] or ["nothing"]
        raise SparkwrightError(
            f"introspection: not the facts of an engine ({error!r}), but: {shown[0][:200]}; "
            "run introspect_vllm.py or introspect_llama.py on the machine to see why"
        ) from error


def _names_of(values: Iterable[str] | None) -> tuple[str, ...] | None:
    return None if values is None else tuple(str(value) for value in values)


def refused(argv: Sequence[str], env: Mapping[str, str], facts: EngineFacts) -> list[str]:
    """Why this build would not take a command line and environment; empty: it would.

    + argv: the engine's own words, from its program on ("vllm serve MODEL --port 8001")
    + env: variables of the unit; only those that the engine alone reads are judged

    Abbreviations are refused although argparse takes unique ones: a later release may have two.
    """
    return [*_bad_variables(env, facts), *_bad_flags(argv, facts)]


def _bad_variables(env: Mapping[str, str], facts: EngineFacts) -> Iterator[str]:
    for name, value in env.items():
        if not name.startswith(PREFIXES[facts.engine]):
            continue
        if name not in facts.env:
            yield f"{name}: unknown to {facts.title}{_hint(name, facts, facts.env)}"
            continue
        allowed = facts.env[name]
        if allowed and value and not {part.strip() for part in value.split(",")} <= {*allowed}:
            yield f"{name}={value}: {facts.title} takes {', '.join(allowed)}"


def _hint(name: str, facts: EngineFacts, known: Iterable[str]) -> str:
    """In which releases it was known and what took its place, or what is spelled like it."""
    found = history(name) if facts.engine == "vllm" else None
    return f"; {found}" if found else _close(name, known)


def _close(name: str, known: Iterable[str]) -> str:
    """A hint only where something is near: hundreds of known names help nobody."""
    found = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return f"; did you mean {found[0]}?" if found else ""


def _bad_flags(argv: Sequence[str], facts: EngineFacts) -> Iterator[str]:
    for word, given, follower in _options(argv):
        # vLLM sets one key of a JSON value so: --attention-config.backend NAME.
        key = "." in word and facts.engine == "vllm"
        name = (word.split(".", 1)[0] if key else word).lstrip("-").replace("_", "-")
        flag = facts.flags.get(name)
        if flag is None or not word.startswith("--"):
            yield f"{word}: {_unknown(name, word, facts)}"
            continue
        takes = True if key else flag.value
        value = given if given is not None else follower if takes is not False else None
        if takes and value is None:
            yield f"{word}: {facts.title} wants a value after it"
        elif takes is False and (given is not None or _is_switch(follower, facts)):
            yield f"{word}: takes no value in {facts.title}, but {given or follower} follows"
        elif value is not None and not key:
            yield from _bad_value(word, name, value, flag, argv, facts)


def _options(argv: Sequence[str]) -> Iterator[tuple[str, str | None, str | None]]:
    """(option, value after "=", next word unless that is an option)"""
    for at, word in enumerate(argv):
        if not _is_option(word):
            continue
        name, equals, value = word.partition("=")
        after = argv[at + 1] if at + 1 < len(argv) else None
        follower = None if after is None or _is_option(after) else after
        yield name, value if equals else None, follower


def _is_option(word: str) -> bool:
    """Whether a word is an option: not a negative number, not a lone dash."""
    return word.startswith("-") and len(word) > 1 and not word[1:2].isdigit() and word[1] != "."


def _is_switch(follower: str | None, facts: EngineFacts) -> bool:
    """llama.cpp has no positional words; vLLM has one, the model, which is none of these."""
    known = follower is not None and follower.lower() in SWITCH_WORDS
    return known or (follower is not None and facts.engine == "llama.cpp")


def _unknown(name: str, word: str, facts: EngineFacts) -> str:
    if not word.startswith("--"):
        return "a short option; write its long name"
    if f"--{name}" in facts.deprecated:
        return f"removed in {facts.title}: {facts.deprecated[f'--{name}']}"
    longer = [known for known in facts.flags if known.startswith(name)]
    if len(longer) == 1:
        return f"an abbreviation in {facts.title}; write --{longer[0]}"
    hint = _hint(f"--{name}", facts, [f"--{known}" for known in facts.flags])
    return f"unknown to {facts.title}{hint}"


def _bad_value(
    word: str, name: str, value: str, flag: Flag, argv: Sequence[str], facts: EngineFacts
) -> Iterator[str]:
    """Names of parsers and attention backends too: vLLM checks those after loading, or never."""
    known, what = flag.choices, "takes"
    if name == "attention-backend":
        known, value = facts.attention_backends or None, value.upper()
    elif name in ("reasoning-parser", "tool-call-parser"):
        plugin = "--reasoning-parser-plugin" if name[0] == "r" else "--tool-parser-plugin"
        names = facts.reasoning_parsers if name[0] == "r" else facts.tool_parsers
        added = any(part.startswith(plugin) for part in argv)
        known, what = (None if added else names or None), "has"
    elif name.endswith("-backend") and facts.engine == "vllm":
        same = {text.lower().replace("-", "_"): text for text in known or ()}  # in any case
        value = same.get(value.lower().replace("-", "_"), value)
    if known is not None and value not in known:
        close = _close(value, known)
        yield f"{word} {value}: {facts.title} {what} {', '.join(known)}{close}"
