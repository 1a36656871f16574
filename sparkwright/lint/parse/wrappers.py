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
    "sudo": frozenset(
        {"-u", "-g", "-h", "-p", "-C", "-D", "-R", "-r", "-t", "-T", "-U", "--user", "--group"}
        | {"--host", "--prompt", "--close-from", "--chdir", "--chroot", "--role", "--type"}
    ),
    "doas": frozenset({"-u", "-C"}),
    "runuser": frozenset({"-u", "--user", "-g", "--group", "-G", "--supp-group"}),
    "timeout": frozenset({"-k", "-s"}),
    "taskset": frozenset({"-c"}),
    "numactl": frozenset(),
    "uv": frozenset({"--python", "-p", "--with", "--project", "--directory", "--env-file"}),
    "uvx": frozenset({"--from", "--with", "--python", "-p"}),
    "poetry": frozenset(),
    "conda": frozenset({"-n", "-p", "--name", "--prefix"}),
}
# Those that change the user; runuser only with -u, else it starts a shell.
_USERS: Final = frozenset({"sudo", "doas", "runuser"})
# Words between a wrapper and its program.
_PLAIN: Final = {"timeout": 1, "taskset": 1, "chrt": 1}
# A wrapper only with this word behind it.
_NEEDS: Final = {"uv": "run", "poetry": "run", "conda": "run"}
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_]\w*)=(.*)", re.S)


@dataclass(frozen=True)
class Bare:
    """A command without its wrappers: words, variables they set, their names.

    + user: as in Command
    """

    argv: tuple[Word, ...]
    env: tuple[Assignment, ...]
    wrapped: tuple[str, ...]
    user: str | None = ""


def unwrap(words: Sequence[Word]) -> Bare:
    """Take wrappers off, one after the other."""
    rest, env, wrapped = list(words), list[Assignment](), list[str]()
    user: str | None = ""
    while rest and (name := (rest[0].text or "").rsplit("/", 1)[-1]) in _WRAPPERS:
        after = _skip(rest, name)
        if after is None:
            break
        whom = _user(rest[1 : len(rest) - len(after)]) if name in _USERS else user
        if name == "runuser" and whom == "":
            break
        while name in ("env", "sudo", "doas") and after and (item := _assigned(after[0])):
            env.append(item)
            after = after[1:]
        if not after:
            break
        wrapped.append(name)
        rest, user = after, "root" if name in _USERS and whom == "" else whom
    return Bare(tuple(rest), tuple(env), tuple(wrapped), user)


def _user(words: Sequence[Word]) -> str | None:
    """Whom the options of sudo and its relatives name, "" when nobody."""
    for at, word in enumerate(words):
        match = re.fullmatch(r"(?:-[a-zA-Z]*?u|--user=?)(.*)", word.shape, re.S)
        if match is not None:
            named = words[at + 1 : at + 2] if not match[1] else [word]
            known = all(one.text is not None for one in named)
            return (match[1] or "".join(one.shape for one in named)) if known else None
    return ""


def _skip(words: list[Word], name: str) -> list[Word] | None:
    """The words behind a wrapper's own; None when it wraps nothing."""
    at = 1
    if name in _NEEDS:
        if len(words) < 2 or words[1].text != _NEEDS[name]:
            return None
        at = 2
    while at < len(words) and (text := words[at].text or "").startswith("-"):
        at += 2 if _takes(text, name) else 1
        if text == "--":
            break
    at += _PLAIN.get(name, 0) if not (name == "taskset" and at > 2) else 0
    return words[at:]


def _takes(text: str, name: str) -> bool:
    """Whether the next word is this option's value; the last of a cluster may want one: -Hu X."""
    if name in _USERS and re.fullmatch(r"-[A-Za-z]+", text):
        first = next((i for i, c in enumerate(text) if f"-{c}" in _WRAPPERS[name]), 0)
        return first == len(text) - 1
    return text in _WRAPPERS[name]


def _assigned(word: Word) -> Assignment | None:
    match = _ASSIGNMENT.fullmatch(word.shape)
    if match is None:
        return None
    value = match[2] if word.text is not None else None
    return Assignment(match[1], value, word.raw, word.at, How.PREFIX, word.unless)
