"""The command line of `docker run …`: options, image, and the words for the container."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from sparkwright.lint.model import Word
from sparkwright.lint.parse import launches

PROGRAMS: Final = frozenset({"docker", "podman", "nerdctl"})


# Options of docker run/create without a value (docker/cli, cli/command/container/opts.go).
_BARE_TEXT: Final = (
    "-d --detach -i --interactive -t --tty --rm --privileged --init -P --publish-all --read-only"
    " --no-healthcheck --oom-kill-disable --disable-content-trust --sig-proxy -q --quiet --replace"
    " --help --tls-verify --use-api-socket"
)


_BARE: Final = frozenset(_BARE_TEXT.split())


_GLOBAL_VALUE: Final = frozenset(
    {"-H", "--host", "-c", "--context", "--config", "-l", "--log-level"}
)


@dataclass
class Container:
    """A container as its command line describes it."""

    image: Word | None = None
    options: list[tuple[str, Word | None]] = field(default_factory=list)
    words: list[Word] = field(default_factory=list)
    command: list[Word] = field(default_factory=list)
    mode: str = "run"

    def values(self, *names: str) -> list[Word]:
        """Values of an option, in order."""
        return [value for name, value in self.options if name in names and value is not None]


def container(argv: Sequence[Word]) -> Container | None:
    """The container of `docker run|create|exec …`; None for other commands."""
    if not argv or launches.base_name(argv[0]) not in PROGRAMS:
        return None
    at = 1
    while at < len(argv) and (argv[at].text or "").startswith("-"):
        at += 2 if argv[at].text in _GLOBAL_VALUE else 1
    if at < len(argv) and argv[at].text == "container":
        at += 1
    if at >= len(argv) or argv[at].text not in ("run", "create", "exec"):
        return None
    return _options(list(argv[at + 1 :]), argv[at].text or "")


def _options(words: list[Word], mode: str) -> Container:
    found = Container(mode=mode)
    at = 0
    while at < len(words):
        word = words[at]
        text = word.text
        if text is None and word.many:
            # An unknown number of options: the image may be inside of them.
            found.words.append(word)
            at += 1
            continue
        if text is None or not text.startswith("-") or text == "-":
            break
        found.words.append(word)
        at += 1
        name, equals, value = text.partition("=")
        if equals:
            found.options.append((name, Word(value, word.raw, word.at)))
        elif _is_bare(name):
            found.options.append((name, None))
        elif not name.startswith("--") and len(name) > 2 and name[1] in "evpuwlmc":
            found.options.append((name[:2], Word(name[2:], word.raw, word.at)))
        elif at < len(words):
            found.options.append((name, words[at]))
            found.words.append(words[at])
            at += 1
    if at < len(words):
        found.image, found.command = words[at], words[at + 1 :]
    return found


def _is_bare(name: str) -> bool:
    return name in _BARE or bool(re.fullmatch(r"-[ditPq]{2,}", name))
