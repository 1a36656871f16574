"""What the rules about systemd share: units with their drop-ins, Exec words, assignments."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from sparkwright.lint.model import (
    GPU_ENGINES,
    Assignment,
    At,
    Directive,
    Document,
    Engine,
    Kind,
    Launch,
)
from sparkwright.lint.parse.systemd import Piece, exec_parts
from sparkwright.lint.places import UNKNOWN, kept

SYSTEMD: Final = frozenset({Kind.UNIT, Kind.DROPIN})
EXEC: Final = (
    "ExecCondition", "ExecStartPre", "ExecStart", "ExecStartPost", "ExecReload", "ExecStop",
    "ExecStopPost",
)  # fmt: skip
# Options behind which a shell finds its script: systemd passes that text on as it stands.
_SHELLS: Final = frozenset({"sh", "bash", "dash", "zsh", "ksh"})


@dataclass(frozen=True)
class ExecWord:
    """One word of a command of an Exec…= line.

    + prefixes: of the program ("+", "-", …); number: 0 for the program
    + script: it is the text behind `sh -c`, which a shell reads again
    """

    directive: Directive
    prefixes: str
    piece: Piece
    number: int
    program: str
    script: bool = False

    @property
    def at(self) -> At:
        """Where it stands."""
        return self.directive.place(self.piece.start)

    @property
    def raw(self) -> str:
        """Its bytes in the file."""
        return self.directive.value[self.piece.start : self.piece.end]

    @property
    def privileged(self) -> bool:
        """Whether it runs as root whatever User= says."""
        return "+" in self.prefixes or "!" in self.prefixes


def exec_words(doc: Document) -> Iterator[ExecWord]:
    """Every word of every Exec…= line of a unit or drop-in."""
    if doc.kind in SYSTEMD:
        for directive in kept(doc, "_exec", lambda: [d for d in doc.directives if d.key in EXEC]):
            yield from words_of(directive)


def words_of(directive: Directive) -> tuple[ExecWord, ...]:
    """Every word of one Exec…= line; kept, since a dozen rules ask for it."""
    return kept(directive, "_words", lambda: _words_of(directive))


def _words_of(directive: Directive) -> tuple[ExecWord, ...]:
    found = []
    for line in exec_parts(directive):
        program = line.words[0].text.rsplit("/", 1)[-1] if line.words else ""
        before = ""
        for number, piece in enumerate(line.words):
            script = program in _SHELLS and re.fullmatch(r"-[a-z]*c", before) is not None
            found.append(ExecWord(directive, line.prefixes, piece, number, program, script))
            before = piece.text
    return tuple(found)


@dataclass(frozen=True)
class Unit:
    """A unit with those of its drop-ins that are at hand; main is None for drop-ins alone."""

    name: str
    main: Document | None
    docs: tuple[Document, ...]

    def all(self, key: str, section: str = "Service") -> list[Directive]:
        """Directives of a key in order; an empty one takes back those before it."""
        every = [one for doc in self.docs for one in doc.all(key, section)]
        resets = [at for at, one in enumerate(every) if not one.value]
        return every[resets[-1] + 1 :] if resets else every

    def last(self, key: str, section: str = "Service") -> Directive | None:
        """The directive that counts for a key that holds one value."""
        found = self.all(key, section)
        return found[-1] if found else None

    def text(self, key: str, section: str = "Service") -> str:
        """That directive's value, "" when there is none."""
        directive = self.last(key, section)
        return directive.value if directive else ""

    @property
    def user(self) -> str:
        """User=, "" when it is root's or not said."""
        user = self.text("User")
        return "" if user in ("root", "0") else user

    @property
    def launches(self) -> list[Launch]:
        """Starts of servers in it."""
        return [launch for doc in self.docs for launch in doc.launches]

    def engines(self, *but: Engine) -> list[Launch]:
        """Starts of servers that use the GPU."""
        return [x for x in self.launches if x.engine in GPU_ENGINES and x.engine not in but]

    def mentions(self, *texts: str) -> bool:
        """Whether one of the texts is in its files at all: asked before they are read closely."""
        for doc in self.docs:
            told = [doc.text, *(item.value or "" for item in doc.assignments)]
            if any(text in one for one in told for text in texts):
                return True
        return False

    def words(self) -> Iterator[ExecWord]:
        """Words of the Exec…= lines that count."""
        for key in EXEC:
            for directive in self.all(key):
                yield from words_of(directive)


def units(docs: Sequence[Document]) -> list[Unit]:
    """The units among the documents, each with its drop-ins in the order of their names."""
    groups: dict[str, list[Document]] = {}
    for doc in docs:
        if doc.kind in SYSTEMD:
            groups.setdefault(doc.unit or doc.path, []).append(doc)
    return [unit for name, of_it in groups.items() for unit in _of_a_name(name, of_it)]


def _of_a_name(name: str, docs: list[Document]) -> Iterator[Unit]:
    """Files of one name; those of two machines may be linted together."""
    mains = [doc for doc in docs if doc.kind is Kind.UNIT]
    rest = sorted((d for d in docs if d.kind is not Kind.UNIT), key=lambda d: Path(d.path).name)
    if not mains:
        yield Unit(name, None, tuple(rest))
    if len(mains) == 1:
        yield Unit(name, mains[0], (mains[0], *rest))
        return
    for main in mains:
        here = os.path.normpath(Path(main.path).parent)
        beside = (d for d in rest if os.path.normpath(Path(d.path).parent.parent) == here)
        yield Unit(name, main, (main, *beside))


def whole_units(docs: Sequence[Document]) -> list[Unit]:
    """Those whose own file is at hand: only of them it can be said that something is missing."""
    return [unit for unit in units(docs) if unit.main is not None]


def assignments(doc: Document) -> tuple[Assignment, ...]:
    """Every assignment of a file, those of `docker run -e` and of commands included."""
    return kept(doc, "_every_assignment", lambda: _assignments(doc))


def _assignments(doc: Document) -> tuple[Assignment, ...]:
    of_launches = [item for launch in doc.launches for item in launch.env]
    every = dict.fromkeys([*doc.assignments, *of_launches])
    # A <stand-in> of an example is text that nobody knows.
    return tuple(replace(i, value=None) if UNKNOWN in (i.value or "") else i for i in every)


def of_a_user(doc: Document) -> bool:
    """Whether a user's own manager runs the unit (systemd.unit(5), "Unit File Load Path")."""
    return "/systemd/user/" in doc.path
