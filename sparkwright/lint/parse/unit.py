"""Units and drop-ins: what their Exec lines start, with which environment."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Final

from sparkwright.lint.model import Assignment, At, Command, Directive, How, Launch, Unsure, Word
from sparkwright.lint.parse import docker, launches, script, systemd
from sparkwright.lint.parse.launches import Around
from sparkwright.lint.parse.shell_builtins import SHELLS, script_of
from sparkwright.lint.parse.systemd import Piece, SystemdLines
from sparkwright.lint.parse.wrappers import unwrap
from sparkwright.lint.text import UNKNOWN, Text

_EXEC: Final = re.compile(r"Exec(Start|StartPre|StartPost|Condition|Reload|Stop|StopPost)$")
_REFERENCE: Final = re.compile(r"\$\{([A-Za-z_]\w*)\}|\$([A-Za-z_]\w*)|\$\$|%%|%.")
_DROPIN: Final = re.compile(r"([^/]+\.[a-z]+)\.d/[^/]+$")


@dataclass(frozen=True)
class UnitFile:
    """What a unit or drop-in says about processes."""

    commands: tuple[Command, ...]
    assignments: tuple[Assignment, ...]
    launches: tuple[Launch, ...]
    unsure: tuple[Unsure, ...]


def unit_name(path: str) -> str:
    """The unit that a file belongs to."""
    match = _DROPIN.search(PurePath(path).as_posix())
    return match[1] if match else PurePath(path).name


def environment(
    directives: Sequence[Directive], read_file: docker.ReadFile
) -> tuple[list[Assignment], list[Unsure]]:
    """What Environment= and EnvironmentFile= give: files win (systemd.exec(5))."""
    inline: list[Assignment] = []
    from_files: list[Assignment] = []
    unknown: list[Unsure] = []
    for line in (d for d in directives if d.section == "Service"):
        if line.key == "Environment":
            inline = [*inline, *inline_items(line)] if line.value else []
        elif line.key == "EnvironmentFile":
            path = line.value.removeprefix("-").strip("\"'")
            found = read_file(path, line.at, How.ENVFILE) if path else ()
            from_files = [*from_files, *(found or ())] if path else []
            if found is None:
                unknown.append(Unsure(line.at, f"{path} is not at hand"))
        elif line.key == "PassEnvironment" and line.value:
            unknown.append(Unsure(line.at, "PassEnvironment= takes more from the manager"))
    return [*inline, *from_files], unknown


def inline_items(line: Directive) -> Iterator[Assignment]:
    """The assignments of one Environment= line; words without "=" are none."""
    for word in systemd.env_words(line).words:
        name, equals, value = word.text.partition("=")
        if equals and re.fullmatch(r"[A-Za-z_]\w*", name):
            known = None if systemd.specifiers(value) else value.replace("%%", "%")
            raw = line.value[word.start : word.end]
            yield Assignment(name, known, raw, line.place(word.start), How.UNIT)


def read(
    lines: SystemdLines, read_file: docker.ReadFile, more: Sequence[Directive] = ()
) -> UnitFile:
    """
    + more: directives of drop-ins that are applied to this unit
    """
    directives = [*lines.directives, *more]
    env, unknown = environment(directives, read_file)
    users = [d.value for d in directives if d.key == "User" and d.section == "Service"]
    around = Around(tuple(env), tuple(unknown), users[-1] if users and users[-1] else None)
    commands: list[Command] = []
    found: list[Launch] = []
    for line in lines.directives:
        if line.section == "Service" and _EXEC.match(line.key):
            for part in systemd.exec_parts(line):
                made, started = _exec(line, part, replace(around, where=line.key), read_file)
                commands += made
                found += started
    return UnitFile(tuple(commands), tuple(env), tuple(found), tuple(unknown))


def _exec(
    line: Directive, part: systemd.ExecLine, around: Around, read_file: docker.ReadFile
) -> tuple[list[Command], list[Launch]]:
    words = [w for piece in part.words for w in word(line, piece, around.env)]
    if not words:
        return [], []
    bare = unwrap(words)
    wrapped = (*part.prefixes, *bare.wrapped)
    at = words[0].at
    command = Command(bare.argv, at, bare.env, wrapped=wrapped, user=bare.user, where=line.key)
    inside = replace(around, env=(*around.env, *bare.env), user=bare.user or around.user)
    if bare.argv and command.name in SHELLS and (text := script_of(bare.argv)):
        inner = script.read(text, read_file, inside)
        shells = [
            replace(
                c, where=line.key, wrapped=(*part.prefixes, *c.wrapped), user=c.user or bare.user
            )
            for c in inner.commands
        ]
        return [command, *shells], [replace(one, where=line.key) for one in inner.launches]
    container = docker.container(bare.argv)
    if container is None:
        return [command], list(launches.every(bare.argv, at, inside))

    def nested(source: Text, around_inside: Around) -> Iterator[Launch]:
        return iter(script.read(source, read_file, around_inside).launches)

    return [command], list(docker.launched(container, at, inside, read_file, nested))


def word(line: Directive, piece: Piece, env: Sequence[Assignment]) -> list[Word]:
    """The words that a process gets for one of an Exec line: `$X` alone is split at spaces."""
    raw, at = line.value[piece.start : piece.end], line.place(piece.start)
    known = {item.name: item.value for item in env}
    single = re.fullmatch(r"\$([A-Za-z_]\w*)", piece.text)
    if single:
        value = known.get(single[1])
        if value is None:
            return [Word(None, raw, at, many=True, pattern=UNKNOWN)]
        return [Word(text, raw, at, pattern=text, spots=((0, at),)) for text in value.split()]

    def fill(match: re.Match[str]) -> str:
        if match[0] in ("$$", "%%"):
            return match[0][0]
        if match[0].startswith("%"):
            return UNKNOWN
        if match[2]:  # "$X" inside of a word stays as it is
            return match[0]
        value = known.get(match[1])
        return UNKNOWN if value is None else value

    text = _REFERENCE.sub(fill, piece.text)
    spots = _spots(line, piece, at) if text == raw else ((0, at),)
    return [Word(None if UNKNOWN in text else text, raw, at, False, pattern=text, spots=spots)]


def _spots(line: Directive, piece: Piece, at: At) -> tuple[tuple[int, At], ...]:
    later = [(o - piece.start, p) for o, p in line.spots if piece.start < o < piece.end]
    return ((0, at), *later)
