"""What stock vLLM of a published version knows, without that version at hand.

What is installed on a machine is never taken from here: see engine_facts.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sparkwright.engine_facts import EngineFacts, Flag
from sparkwright.errors import SparkwrightError
from sparkwright.vllm_history import (
    NAMES,
    History,
    history,
    history_of_value,
    indexes,
    releases,
    table,
    values,
)

__all__ = ["History", "facts_of", "history", "history_of_value", "learned", "releases"]


def learned(version: str) -> str | None:
    """The learned release that stands for a version: itself, or the nearest of the same minor.

    A local part is left out (0.17.1+cu130); no release stands for a nightly.
    """
    public = version.split("+")[0].removeprefix("v")
    if public in releases():
        return public
    number = re.fullmatch(r"(\d+)\.(\d+)\.(\d+)(\.post\d+)?", public)
    if number is None:
        return None
    same = [known for known in releases() if known.split(".")[:2] == [number[1], number[2]]]
    return min(same, key=lambda known: abs(int(known.split(".")[2]) - int(number[3])), default=None)


def facts_of(version: str) -> EngineFacts:
    """What stock vLLM of a version knows.

    Raises SparkwrightError when neither that release nor one of the same minor was learned.
    """
    name = learned(version)
    if name is None:
        raise SparkwrightError(
            f"vllm {version}: not one of the releases that were learned ({', '.join(releases())}); "
            "name one of these, or read the wheel itself with --learn"
        )
    known, at = table(), releases().index(name)
    env, flags = dict(_at(known["env"], at)), dict(_at(known["flags"], at))
    told = [*env.items(), *((f"--{name}", state) for name, state in flags.items())]
    return EngineFacts(
        engine="vllm",
        build="stock",
        version=name,
        env={name: values(state[0]) for name, state in env.items()},
        deprecated={n: known["texts"][s[1]] for n, s in told if s[1] is not None},
        flags={name: Flag(values(state[0]), state[2]) for name, state in flags.items()},
        **{kind: tuple(name for name, _ in _at(known[kind], at)) for kind in NAMES},
    )


def _at(part: Mapping[str, Mapping[str, Any]], index: int) -> list[tuple[str, Any]]:
    """Names that one release has, each with its state there."""
    return [
        (name, state)
        for name, states in part.items()
        for where, state in states.items()
        if index in indexes(where)
    ]
