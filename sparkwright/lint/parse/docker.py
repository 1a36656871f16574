"""`docker run …`: the container's options, its image, and what runs in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from sparkwright.lint.model import Assignment, At, How, Launch, Unsure, Word
from sparkwright.lint.parse import launches
from sparkwright.lint.parse.containers import PROGRAMS, Container, container
from sparkwright.lint.parse.launches import Around
from sparkwright.lint.text import Text

__all__ = ["PROGRAMS", "Container", "container", "environment", "inside_image", "launched"]

ReadFile = Callable[[str, At, How], "tuple[Assignment, ...] | None"]
Nested = Callable[[Text, Around], Iterator[Launch]]


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
    return _by_flags(found, at, inside)


# Flags that only one engine has: an image of any name that gets them starts that engine.
_TELLING: Final = {
    "--gpu-memory-utilization": "vllm serve",
    "--max-model-len": "vllm serve",
    "--n-gpu-layers": "llama-server",
    "-ngl": "llama-server",
}


def _by_flags(found: Container, at: At, inside: Around) -> Launch | None:
    """The engine of an image that is not known, by the flags that it is given."""
    for word in found.command if found.mode != "exec" else ():
        program = _TELLING.get((word.text or "").split("=")[0])
        if program is not None:
            place = found.image.at if found.image else at
            words = [Word(text, text, place) for text in program.split()]
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
