"""Which commands start an engine, and what they give it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from sparkwright.lint.model import Assignment, At, Engine, Launch, Unsure, Word

_PROGRAMS: Final[dict[str, Engine]] = {
    "vllm": Engine.VLLM,
    "llama-server": Engine.LLAMA,
    "ollama": Engine.OLLAMA,
    "trtllm-serve": Engine.TRTLLM,
    "sglang": Engine.SGLANG,
}
_SERVE_WORD: Final = {Engine.VLLM: "serve", Engine.OLLAMA: "serve", Engine.SGLANG: "serve"}
_MODULES: Final[dict[str, Engine]] = {
    "vllm.entrypoints.openai.api_server": Engine.VLLM,
    "vllm.entrypoints.api_server": Engine.VLLM,
    "vllm.entrypoints.cli.main": Engine.VLLM,
    "sglang.launch_server": Engine.SGLANG,
}
# These name an engine without starting it.
_TALKS_TEXT: Final = (
    "echo printf grep egrep pgrep pkill killall which type command man apt apt-get pip pip3 git"
    " sed awk cat ls log info warn error die fail ok note step success print_status test [ ps cp mv"
    " rm ln mkdir chown chmod kill journalctl systemctl curl wget set declare usage say header"
    " warning debug alias hash read tail head find cd return cmake make install"
)
_TALKS: Final = frozenset(_TALKS_TEXT.split())
_PYTHON: Final = re.compile(r"(python|python3)(\.\d+)?$")


@dataclass(frozen=True)
class Around:
    """What surrounds a command line: who runs it, with what environment."""

    env: tuple[Assignment, ...] = ()
    env_unknown: tuple[Unsure, ...] = ()
    user: str | None = None
    where: str = ""
    image: Word | None = None
    container: tuple[Word, ...] = ()
    cluster: bool = False


def base_name(word: Word) -> str:
    """The file name of a program's word, "" when it cannot be told."""
    return word.shape.rsplit("/", 1)[-1]


def find(argv: Sequence[Word], at: At, around: Around) -> Launch | None:
    """The launch in a command's words; None when it starts no engine."""
    if not argv or base_name(argv[0]) in _TALKS:
        return None
    for index, word in enumerate(argv):
        found = _engine_at(argv, index)
        if found is not None:
            engine, words = found
            cluster = around.cluster or _is_cluster(argv[:index], words)
            return Launch(
                engine, words, at if index == 0 else word.at, around.env, (), around.env_unknown,
                around.user, around.where, around.image, around.container, cluster,
            )  # fmt: skip
        if index and base_name(word) in _TALKS:
            return None
    return None


def _engine_at(argv: Sequence[Word], index: int) -> tuple[Engine, tuple[Word, ...]] | None:
    """The engine that the word at an index starts, with its words from there on."""
    word, rest = argv[index], argv[index + 1 :]
    engine = _PROGRAMS.get(base_name(word))
    if engine is not None:
        needed = _SERVE_WORD.get(engine)
        starts = needed is None or (rest and rest[0].text == needed)
        # A bare name deep inside of a command is an argument of something else.
        if starts and (index == 0 or needed is not None or "/" in word.shape):
            return engine, (word, *rest)
        return None
    if _PYTHON.fullmatch(base_name(word)) and len(rest) > 1:
        for at, flag in enumerate(rest[:-1]):
            if flag.text == "-m":
                module = _MODULES.get(rest[at + 1].text or "")
                return (module, (rest[at + 1], *rest[at + 2 :])) if module else None
            if not (flag.text or "").startswith("-"):
                # `python -X dev /opt/venv/bin/vllm serve` is the next word's own turn.
                return None
    return None


def _is_cluster(before: Sequence[Word], words: Sequence[Word]) -> bool:
    """Whether it is one rank of several machines, by the flags that only those have."""
    texts = {(word.text or "").split("=")[0] for word in words}
    launcher = any("cluster" in base_name(word) for word in before)
    several = {
        "--nnodes",
        "--node-rank",
        "--headless",
        "--master-addr",
        "-n",
        "--data-parallel-address",
    }
    ray = "ray" in {word.text for word in words}
    return launcher or ray or bool(texts & several)


def with_lost(launch: Launch, assignments: Sequence[Assignment]) -> Launch:
    """The launch with the assignments of the file that do not reach it."""
    seen = {(item.name, item.at) for item in launch.env}
    lost = tuple(item for item in assignments if (item.name, item.at) not in seen)
    return replace(launch, lost=lost)


def every(argv: Sequence[Word], at: At, around: Around) -> Iterator[Launch]:
    """find() as an iterator of none or one."""
    found = find(argv, at, around)
    if found is not None:
        yield found
