"""What the load driver is told, and what its answer becomes."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sparkwright.bench_runs import Depth, Level, depth_of, level_of
from sparkwright.errors import SparkwrightError
from sparkwright.paths import script

USERS: Final = (1, 2, 4, 8, 16, 32, 64)
DEPTHS: Final = (0, 4096, 16384)
# From this number of users on a sweep is heavy: others would wait behind it.
TIMEOUT_S: Final = 900
# Token numbers of a model whose vocabulary is not known: in each there are so many.
VOCABULARY: Final = (300, 30000)


@dataclass(frozen=True)
class Asked:
    """What is measured.

    + pp, tg: tokens of the prompt at depth 0, and tokens generated behind each prompt
    + words, max_tokens: of each question in the sweep, and of its answer
    """

    depths: tuple[int, ...] = DEPTHS
    users: tuple[int, ...] = USERS
    pp: int = 2048
    tg: int = 64
    repeat: int = 3
    words: int = 256
    max_tokens: int = 128

    def prompts(self, context: int | None) -> tuple[list[int], list[str]]:
        """Lengths of the prompts that the context holds, and a note on those that it does not."""
        lengths = [depth + self.pp for depth in self.depths]
        fit = [n for n in lengths if context is None or n + self.tg <= context]
        over = [n for n in lengths if n not in fit]
        said = f"not measured, since the context is {context}: {over} tokens"
        return fit, [said] if over else []


@dataclass(frozen=True)
class Target:
    """Where the endpoint is, as seen from who asks.

    + prefix: path before /chat/completions
    + key: API key; it goes by stdin and is never shown
    """

    scheme: str
    host: str
    port: int
    model: str
    prefix: str = "/v1"
    key: str = ""


def target_of(url: str, model: str, key: str) -> Target:
    """Out of an address such as http://127.0.0.1:8080/v1. Raises SparkwrightError."""
    try:
        parts = urllib.parse.urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}[parts.scheme]
        if not parts.hostname:
            raise ValueError
    except (ValueError, KeyError):
        raise SparkwrightError(f"--url {url}: is no address; write http://HOST:PORT") from None
    prefix = parts.path.rstrip("/") or "/v1"
    return Target(parts.scheme, parts.hostname, port, model, prefix, key)


def spec_of(
    target: Target, asked: Asked, lengths: Sequence[int], vocab: int, anyway: bool
) -> dict[str, Any]:
    """
    The driver's spec (files/opt/sparkwright/lib/bench_load.py).

    + vocab: size of the vocabulary, 0 when it is not known. Tokens are taken out of its middle:
      special ones stand at its ends
    """
    middle = (int(vocab * 0.3), int(vocab * 0.6)) if vocab else VOCABULARY
    return {
        "scheme": target.scheme, "host": target.host, "port": target.port, "model": target.model,
        "chat": f"{target.prefix}/chat/completions", "plain": f"{target.prefix}/completions",
        "key": target.key, "timeout_s": TIMEOUT_S, "anyway": anyway,
        "vocabulary": list(middle), "depths": list(lengths), "repeat": asked.repeat,
        "tg": asked.tg, "users": list(asked.users), "words": asked.words,
        "max_tokens": asked.max_tokens,
    }  # fmt: skip


def here(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """Run the driver on this computer, in a process of its own; its progress goes to stderr.

    Raises SparkwrightError when it ends without an answer.
    """
    argv = [sys.executable, "-c", script("bench_load.py")]
    done = subprocess.run(  # noqa: S603 - our own program; the spec with the key goes by stdin
        argv, input=json.dumps(spec), stdout=subprocess.PIPE, text=True, check=False
    )
    return said(done.stdout)


def said(text: str) -> Mapping[str, Any]:
    """The driver's answer. Raises SparkwrightError when it is none."""
    try:
        found: dict[str, Any] = json.loads(text.strip().splitlines()[-1])
    except (ValueError, IndexError):
        raise SparkwrightError("bench: the load driver ended without a result") from None
    return found


def refused(found: Mapping[str, Any], where: str) -> str | None:
    """Why nothing was measured, with what to do; None when something was."""
    why = found.get("refused")
    if why is None:
        return None
    if why == "active":
        return (f"{where}: {found['active']:.0f} request(s) of others are under way, which this "
                "would slow down and be slowed by; wait, or give --anyway")  # fmt: skip
    if why == "unknown":
        return (f"{where}: neither /metrics nor /slots says whether others are active; give "
                "--anyway when you know that nobody is")  # fmt: skip
    return f"{where}: the endpoint does not answer as it should ({why}); see `sparkwright status`"


def measured(found: Mapping[str, Any]) -> tuple[tuple[Depth, ...], tuple[Level, ...]]:
    """Depths and levels out of the driver's answer."""
    depths = tuple(depth_of(part["tokens"], part["rows"]) for part in found["depths"])
    return depths, tuple(level_of(part["users"], part["rows"]) for part in found["users"])


def numbers(text: str, least: int) -> tuple[int, ...]:
    """Numbers of a list such as 1,2,4; for argparse. Raises ValueError."""
    found = tuple(int(part) for part in text.replace(",", " ").split())
    if not found or min(found) < least:
        raise ValueError(text)
    return found


Driver = Callable[[Mapping[str, Any]], Mapping[str, Any]]
