"""What a linted file says, whatever its format: documents, launches, words, settings.

Nothing here is guessed: a text that cannot be told from the files at hand is None.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final


class Kind(StrEnum):
    """What a file is; the values are the words of `--kind`."""

    UNIT = "unit"  # a systemd unit
    DROPIN = "dropin"  # a *.conf below a *.service.d
    ENVFILE = "envfile"  # KEY=value lines: EnvironmentFile= or docker's --env-file
    SCRIPT = "script"  # a shell script
    DOCKERFILE = "dockerfile"
    COMPOSE = "compose"
    RECIPE = "recipe"  # a recipe of sparkwright
    COMMAND_RECIPE = "command-recipe"  # sparkrun and eugr: `command:` with {placeholders}
    GUIDE_RECIPE = "guide-recipe"  # vllm-project/recipes: arguments and variables as lists
    VLLM_CONFIG = "vllm-config"  # the YAML of `vllm serve --config`
    PRESETS = "presets"  # llama-server's --models-preset file
    LIMITS = "limits"  # /etc/security/limits.conf
    MARKDOWN = "markdown"  # only the shell, unit and compose blocks in it


@dataclass(frozen=True, order=True)
class At:
    """A place: line and column count from 1, a column is one character."""

    file: str
    line: int
    column: int = 1


@dataclass(frozen=True)
class Word:
    """One word of a command line.

    + text: exactly what the program gets; None when that cannot be told
    + raw: the bytes in the file
    + many: it may be any number of words, none included ("$@", an unknown array, an unquoted $X)
    + maybe: only there when a branch of the script is taken
    + unless: what from outside changes the text ("PORT" for "${PORT:-8000}"); "" when nothing does
    + pattern: the text with U+E000 in place of each part that cannot be told
    + spots: (offset in pattern, its place), where parts of it begin
    """

    text: str | None
    raw: str
    at: At
    many: bool = False
    maybe: bool = False
    unless: str = ""
    pattern: str = ""
    spots: tuple[tuple[int, At], ...] = ()

    @property
    def shape(self) -> str:
        """The text as far as it is known, for asking what kind of thing it is; never its value."""
        return self.text if self.text is not None else self.pattern


class How(StrEnum):
    """Where an assignment is made."""

    UNIT = "Environment="
    ENVFILE = "EnvironmentFile="
    EXPORT = "export"
    SHELL = "shell variable"  # not exported: it reaches no other program
    PREFIX = "before the command"  # FOO=1 program
    DOCKER = "docker run -e"
    DOCKER_FILE = "docker run --env-file"
    IMAGE = "ENV"
    COMPOSE = "environment:"
    COMPOSE_FILE = "env_file:"
    RECIPE = "env:"


@dataclass(frozen=True)
class Assignment:
    """One environment variable as it is set somewhere.

    + value: exactly what a process gets, None when that cannot be told
    + raw: the text in the file, name included
    """

    name: str
    value: str | None
    raw: str
    at: At
    how: How
    unless: str = ""  # as in Word


@dataclass(frozen=True)
class Directive:
    """One line `Key=value` of a systemd file, continuation lines joined as systemd joins them.

    + section: "" before the first header
    + value: stripped, quotes and specifiers as they stand
    + raw: the bytes from the key to the end of the value
    + at: the key; spots: (offset in value, its place), at each place where a file line begins
    """

    section: str
    key: str
    value: str
    raw: str
    at: At
    spots: tuple[tuple[int, At], ...] = ()

    def place(self, offset: int) -> At:
        """Where the character at `offset` of the value stands in the file."""
        best = max((s for s in self.spots if s[0] <= offset), default=(0, self.at))
        start, at = best
        return At(at.file, at.line, at.column + offset - start)


@dataclass(frozen=True)
class Redirect:
    """`> target` and its relatives; op without the file descriptor."""

    op: str
    target: Word


@dataclass(frozen=True)
class Command:
    """One simple command of a script, a RUN line, or a unit's Exec line.

    + argv: without `exec`, `nohup`, `env`, `nice`, `time`, `sudo`, `timeout N` before it
    + env: assignments written before the command
    + wrapped: those words before it, as text ("sudo", "nohup")
    + piped_from: index in Document.commands of the command whose output it reads
    + where: "" for a script's top level, a function's name, or the Exec key of a unit
    + background: ends with "&"
    """

    argv: tuple[Word, ...]
    at: At
    env: tuple[Assignment, ...] = ()
    redirects: tuple[Redirect, ...] = ()
    wrapped: tuple[str, ...] = ()
    piped_from: int | None = None
    where: str = ""
    background: bool = False

    @property
    def name(self) -> str:
        """The program's file name, "" when it cannot be told."""
        text = self.argv[0].text if self.argv else None
        return (text or "").rsplit("/", 1)[-1]

    def texts(self) -> list[str]:
        """The words that can be told."""
        return [word.text for word in self.argv if word.text is not None]


@dataclass(frozen=True)
class Unsure:
    """Something that the linter could not tell."""

    at: At
    what: str


class Engine(StrEnum):
    """What a launch starts."""

    VLLM = "vllm"
    LLAMA = "llama-server"
    OLLAMA = "ollama"
    SGLANG = "sglang"
    TRTLLM = "trtllm-serve"
    RAY = "ray"
    OTHER = "other"  # a unit's or container's program that is no engine known here


GPU_ENGINES: Final = frozenset(
    {Engine.VLLM, Engine.LLAMA, Engine.OLLAMA, Engine.SGLANG, Engine.TRTLLM}
)


@dataclass(frozen=True)
class Launch:
    """One start of a server, as far as the file says it.

    + argv: the program first ("vllm", "serve", …), wrappers such as docker removed
    + env: every assignment that reaches the process, in order: the last of a name wins
    + lost: assignments in the same file that do not reach it (a shell variable without export,
      an export after the line or outside of its container)
    + env_unknown: why other variables may be there too (an EnvironmentFile not at hand, an image)
    + container: the words of docker/podman before the image, "" image when it is no container
    + user: of the unit or container; None when not said
    + where: "ExecStart", a function, a compose service, a recipe's name
    + cluster: it is one rank of several machines (ray, --nnodes, a recipe for clusters)
    """

    engine: Engine
    argv: tuple[Word, ...]
    at: At
    env: tuple[Assignment, ...] = ()
    lost: tuple[Assignment, ...] = ()
    env_unknown: tuple[Unsure, ...] = ()
    user: str | None = None
    where: str = ""
    image: Word | None = None
    container: tuple[Word, ...] = ()
    cluster: bool = False

    def get(self, name: str) -> Assignment | None:
        """The assignment of a variable that the process sees, if one is known."""
        return next((item for item in reversed(self.env) if item.name == name), None)


@dataclass(frozen=True)
class Key:
    """A value of a YAML file: path is its keys joined by "/", list items by number."""

    path: str
    value: str | None  # the scalar as written; None for maps, lists and null
    at: At
    tag: str = "str"  # str, int, float, bool, null, map, list


@dataclass(frozen=True)
class Document:
    """One linted file.

    + path: as given; text: decoded, a BOM removed, undecodable bytes as lone surrogates
    + directives: systemd files; keys: YAML files; commands: shell text wherever it stands
    + assignments: every one in the file, in order
    + launches: every start of a server
    + unsure: what could not be told
    + unit: for drop-ins and units the unit's name ("vllm.service"), "" for others
    + headers: section headers of a systemd file; passed_over: its lines that are neither comment,
      header nor assignment, with the text and why
    + facts: what one format alone has ("container", "runtime", … of recipes)
    """

    path: str
    kind: Kind
    text: str
    directives: tuple[Directive, ...] = ()
    keys: tuple[Key, ...] = ()
    commands: tuple[Command, ...] = ()
    assignments: tuple[Assignment, ...] = ()
    launches: tuple[Launch, ...] = ()
    unsure: tuple[Unsure, ...] = ()
    unit: str = ""
    crlf: bool = False
    bom: bool = False
    headers: tuple[tuple[At, str], ...] = ()
    passed_over: tuple[tuple[At, str, str], ...] = ()
    facts: Mapping[str, str] = field(default_factory=dict)

    @property
    def lines(self) -> list[str]:
        """Lines without their ends, as systemd and shells count them."""
        return self.text.replace("\r\n", "\n").split("\n")

    def all(self, key: str, section: str = "Service") -> tuple[Directive, ...]:
        """Directives of that key in that section, in order (resets not applied)."""
        return tuple(d for d in self.directives if d.key == key and d.section == section)

    def last(self, key: str, section: str = "Service") -> Directive | None:
        """The directive that counts for a key that holds one value."""
        found = self.all(key, section)
        return found[-1] if found else None
