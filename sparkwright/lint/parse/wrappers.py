"""Programs that start another one: what stands behind `sudo -E nohup timeout 5 env A=1 …`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sparkwright.lint.model import Assignment, How, Word

# Wrapper -> its options that take a value of their own.
_WRAPPERS: Final[dict[str, frozenset[str]]] = {
    "exec": frozenset({"-a"}),
    "nohup": frozenset(),
    "time": frozenset({"-f", "-o"}),
    "command": frozenset(),
    "builtin": frozenset(),
    "setsid": frozenset(),
    "nice": frozenset({"-n"}),
    "ionice": frozenset({"-c", "-n"}),
    "chrt": frozenset(),
    "stdbuf": frozenset({"-o", "-e", "-i"}),
    "unbuffer": frozenset(),
    "env": frozenset({"-u", "-C", "-S"}),
    "sudo": frozenset({"-u", "-g", "-h", "-p", "-C", "-D", "-r", "-t", "-T", "-U"}),
    "doas": frozenset({"-u", "-C"}),
    "timeout": frozenset({"-k", "-s"}),
    "taskset": frozenset({"-c"}),
    "numactl": frozenset(),
    "uv": frozenset({"--python", "-p", "--with", "--project", "--directory", "--env-file"}),
    "uvx": frozenset({"--from", "--with", "--python", "-p"}),
    "poetry": frozenset(),
    "conda": frozenset({"-n", "-p", "--name", "--prefix"}),
}
# Words between a wrapper and its program.
_PLAIN: Final = {"timeout": 1, "taskset": 1, "chrt": 1}
# A wrapper only with this word behind it.
_NEEDS: Final = {"uv": "run", "poetry": "run", "conda": "run"}
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_]\w*)=(.*)", re.S)


@dataclass(frozen=True)
class Bare:
    """A command without its wrappers: words, variables they set, their names."""

    argv: tuple[Word, ...]
    env: tuple[Assignment, ...]
    wrapped: tuple[str, ...]


def unwrap(words: Sequence[Word]) -> Bare:
    """Take wrappers off, one after the other."""
    rest, env, wrapped = list(words), list[Assignment](), list[str]()
    while rest and (name := (rest[0].text or "").rsplit("/", 1)[-1]) in _WRAPPERS:
        after = _skip(rest, name)
        if after is None:
            break
        while name in ("env", "sudo", "doas") and after and (item := _assigned(after[0])):
            env.append(item)
            after = after[1:]
        if not after:
            break
        wrapped.append(name)
        rest = after
    return Bare(tuple(rest), tuple(env), tuple(wrapped))


def _skip(words: list[Word], name: str) -> list[Word] | None:
    """The words behind a wrapper's own; None when it wraps nothing."""
    at = 1
    if name in _NEEDS:
        if len(words) < 2 or words[1].text != _NEEDS[name]:
            return None
        at = 2
    while at < len(words) and (text := words[at].text or "").startswith("-"):
        at += 2 if text in _WRAPPERS[name] else 1
        if text == "--":
            break
    at += _PLAIN.get(name, 0) if not (name == "taskset" and at > 2) else 0
    return words[at:]


def _assigned(word: Word) -> Assignment | None:
    match = _ASSIGNMENT.fullmatch(word.shape)
    if match is None:
        return None
    value = match[2] if word.text is not None else None
    return Assignment(match[1], value, word.raw, word.at, How.PREFIX, word.unless)
