"""`docker run …`: the container's options, its image, and what runs in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from sparkwright.lint.model import Assignment, At, How, Launch, Unsure, Word
from sparkwright.lint.parse import launches
from sparkwright.lint.parse.launches import Around
from sparkwright.lint.text import Text

PROGRAMS: Final = frozenset({"docker", "podman", "nerdctl"})
# Options of docker run/create without a value (docker/cli, cli/command/container/opts.go).
_BARE: Final = frozenset(
    "-d --detach -i --interactive -t --tty --rm --privileged --init -P --publish-all --read-only"
    " --no-healthcheck --oom-kill-disable --disable-content-trust --sig-proxy -q --quiet --replace"
    " --help --tls-verify --use-api-socket".split()
)
_GLOBAL_VALUE: Final = frozenset(
    {"-H", "--host", "-c", "--context", "--config", "-l", "--log-level"}
)
ReadFile = Callable[[str, At, How], "tuple[Assignment, ...] | None"]
Nested = Callable[[Text, Around], Iterator[Launch]]


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


# What an image starts when its command line gives only arguments (the images' own ENTRYPOINT).
_ENTRYPOINTS: Final = (
    (re.compile(r"(^|/)vllm/vllm-openai\b"), "vllm serve"),
    (re.compile(r"(^|/)ggml-org/llama\.cpp:server"), "llama-server"),
    (re.compile(r"(^|/)ggerganov/llama\.cpp:server"), "llama-server"),
    (re.compile(r"(^|/)ollama/ollama\b"), "ollama serve"),
)


def launched(
    found: Container, at: At, around: Around, read_file: ReadFile, nested: Nested
) -> Iterator[Launch]:
    """The engines that a container starts.

    + around: of the docker command itself: its environment reaches nothing but `-e NAME`
    + nested: walks a shell text inside of the container
    """
    env, unknown = environment(found, around, read_file)
    if found.image is not None:
        shown = found.image.text or found.image.raw
        unknown = (*unknown, Unsure(found.image.at, f"the image {shown} may set more"))
    user = next((w.text for w in found.values("-u", "--user")), None)
    inside = Around(
        env, unknown, user, around.where, found.image, tuple(found.words), around.cluster
    )
    yield from inside_image(found, at, inside, nested)


def inside_image(found: Container, at: At, inside: Around, nested: Nested) -> Iterator[Launch]:
    """Launches of a container whose surroundings are known."""
    argv = [*found.values("--entrypoint"), *found.command]
    # A shell script in there: `bash -c "…"`, whatever stands before it in the command line.
    for index, word in enumerate(argv):
        if launches.base_name(word) in ("bash", "sh") and index < 3:
            text = _script(argv[index:])
            if text is not None:
                yield from nested(text, inside)
                return
    launch = launches.find(argv, at, inside)
    if launch is None and not found.values("--entrypoint"):
        launch = _by_entrypoint(found, at, inside)
    if launch is not None:
        yield launch


def _script(argv: Sequence[Word]) -> Text | None:
    for at, word in enumerate(argv[1:], 1):
        text = word.text or ""
        if not text.startswith("-"):
            return None
        if "c" in text and not text.startswith("--"):
            rest = [w for w in argv[at + 1 :] if not (w.text or "").startswith("-")]
            return Text(rest[0].shape, rest[0].spots or ((0, rest[0].at),)) if rest else None
    return None


def _by_entrypoint(found: Container, at: At, inside: Around) -> Launch | None:
    image = found.image.shape if found.image else ""
    for pattern, program in _ENTRYPOINTS:
        if pattern.search(image) and found.mode != "exec":
            place = found.image.at if found.image else at
            words = [Word(text, text, place) for text in program.split()]
            if found.command and found.command[0].text == words[-1].text == "serve":
                words = words[:1]
            return launches.find([*words, *found.command], place, inside)
    return None


def environment(
    found: Container, around: Around, read_file: ReadFile
) -> tuple[tuple[Assignment, ...], tuple[Unsure, ...]]:
    """What docker's options give the process: --env-file first, then -e (docker run reference)."""
    env: list[Assignment] = []
    unknown: list[Unsure] = []
    outside = {item.name: item for item in around.env}
    for word in found.values("--env-file"):
        items = read_file(word.text, word.at, How.DOCKER_FILE) if word.text else None
        if items is None:
            unknown.append(Unsure(word.at, f"{word.raw} is not at hand"))
        env += items or ()
    for word in found.values("-e", "--env"):
        name, equals, value = word.shape.partition("=")
        known = value if word.text is not None else None
        if not equals:
            known = outside[name].value if name in outside else None
        if name.isidentifier():
            env.append(Assignment(name, known, word.raw, word.at, How.DOCKER, word.unless))
    if any(word.many for word in found.words):
        unknown.append(Unsure(found.words[0].at, "a variable adds options there"))
    return tuple(env), tuple(unknown)
