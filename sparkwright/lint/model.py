"""What a linted file says, whatever its format: documents, launches, words, settings.

Nothing here is guessed: a text that cannot be told from the files at hand is None.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Final

from sparkwright.lint.places import (
    Assignment,
    At,
    Command,
    Directive,
    How,
    Redirect,
    Unsure,
    Word,
)

# Names of variables in shell text, and those that a docker line names to pass them on.
_EXPANDED: Final = re.compile(r"\$\{?(\w+)")
_PASSED: Final = re.compile(r"(?:-e|--env)[ =](\w+)")

__all__ = [
    "GPU_ENGINES",
    "Assignment",
    "At",
    "Command",
    "Directive",
    "Document",
    "Engine",
    "How",
    "Key",
    "Kind",
    "Launch",
    "Redirect",
    "Unsure",
    "Word",
]


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
    + whole: the file's text when this document is only a part of it, such as a unit that a script
      writes; places count in the file
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
    whole: str = ""

    @cached_property
    def lines(self) -> list[str]:
        """Lines of the whole file without their ends: line N of a place is lines[N - 1]."""
        return (self.whole or self.text).replace("\r\n", "\n").split("\n")

    @cached_property
    def expanded(self) -> frozenset[str]:
        """Names that the file itself expands: X of "$X" and "${X…}"."""
        return frozenset(_EXPANDED.findall(self.text))

    @cached_property
    def passed(self) -> frozenset[str]:
        """Names behind `-e` and `--env`."""
        return frozenset(_PASSED.findall(self.text))

    def all(self, key: str, section: str = "Service") -> tuple[Directive, ...]:
        """Directives of that key in that section, in order (resets not applied)."""
        return self._by_key.get((section, key), ())

    @cached_property
    def _by_key(self) -> dict[tuple[str, str], tuple[Directive, ...]]:
        found: dict[tuple[str, str], tuple[Directive, ...]] = {}
        for one in self.directives:
            found[one.section, one.key] = (*found.get((one.section, one.key), ()), one)
        return found

    def last(self, key: str, section: str = "Service") -> Directive | None:
        """The directive that counts for a key that holds one value."""
        found = self.all(key, section)
        return found[-1] if found else None
