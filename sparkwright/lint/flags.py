"""What rules about command lines share: options of a launch with the build that reads them."""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Iterator
from typing import Final

from sparkwright.engine_facts import Flag
from sparkwright.lint.context import Build, Context
from sparkwright.lint.findings import Verdict
from sparkwright.lint.model import Engine, Launch
from sparkwright.lint.options import Option
from sparkwright.lint.short_names import SHORT

JUDGED: Final = frozenset({Engine.VLLM, Engine.LLAMA})


def options(launch: Launch, ctx: Context) -> Iterator[tuple[Option, Build]]:
    """Every option of an engine whose facts are known.

    Several options in one word of an Exec line are a mistake of their own (systemd_exec_words).
    """
    build = ctx.build(launch)
    if build is not None and launch.engine in JUDGED:
        for option in ctx.options(launch):
            if not (launch.where.startswith("Exec") and " " in (option.spelled.text or "")):
                yield option, build


def known(option: Option, build: Build) -> Flag | None:
    """What the build says about an option; None when it has no such long name."""
    flag = build.facts.flags.get(option.name)
    if flag is None and option.name.startswith("no-"):
        positive = build.facts.flags.get(option.name.removeprefix("no-"))
        # vLLM's pairs are --enable-x and --disable-x in 0.33, and --no-enable-x still works.
        if positive is not None and positive.value is not True and build.facts.engine == "vllm":
            return Flag(None, False)
    return flag


def is_short(option: Option, launch: Launch) -> bool:
    """Whether it is spelled with one of the engine's own short names."""
    text = (option.spelled.text or "").split("=")[0].split(".")[0]
    glued = launch.engine is Engine.VLLM and re.fullmatch(r"-O\w+", text)
    return text in SHORT[launch.engine] or bool(glued)


def is_long(option: Option) -> bool:
    """Whether it is spelled with two dashes."""
    return (option.spelled.text or "").startswith("--")


def abbreviates(option: Option, build: Build) -> list[str]:
    """Long names that an unknown one begins: argparse of vLLM takes it when there is only one."""
    if build.facts.engine != "vllm" or option.dotted:
        return []
    longer = [name for name in build.facts.flags if name.startswith(option.name)]
    return [name for name in longer if not name.startswith("no-") or option.name.startswith("no-")]


def close(name: str, build: Build) -> str:
    """A near name, or ""."""
    found = difflib.get_close_matches(name, build.facts.flags, n=1, cutoff=0.75)
    return found[0] if found else ""


def stops(launch: Launch, ctx: Context) -> Verdict:
    """BLOCK where the build is known; other people's images may hold one that has the flag."""
    return Verdict.BLOCK if ctx.certain(launch) else Verdict.WARN


def shown(option: Option) -> str:
    """An option as it is written, with its value."""
    return " ".join(word.raw for word in option.words)


def nearest(value: str, choices: tuple[str, ...]) -> str:
    """The fix for a wrong value: the one that was meant, or all of them."""
    plain = {choice.lower().replace("_", "").replace("-", ""): choice for choice in choices}
    bare = value.lower().replace("_", "").replace("-", "")
    # What begins alike is meant before what only looks alike: FLASHATTENTION, FLASH_ATTN.
    found = difflib.get_close_matches(bare, plain, n=4, cutoff=0.5)
    if not found:
        return f"write one of {', '.join(choices)}"
    return f"write {plain[max(found, key=lambda name: _begins_alike(name, bare))]}"


def _begins_alike(one: str, two: str) -> int:
    pairs = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, two, strict=False))
    return sum(1 for _ in pairs)
