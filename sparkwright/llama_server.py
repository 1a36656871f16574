"""The command line of llama.cpp's llama-server, from a recipe."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Protocol

from sparkwright.engine_facts import EngineFacts
from sparkwright.errors import SparkwrightError

# llama.cpp src/llama.cpp, llama_split_path: "%s-%05d-of-%05d.gguf".
# Its variable for --offline: nothing is fetched, whatever a recipe's flags name (b11312, common/
# arg.cpp). It reads none of the Hub client's variables, and reports nothing to anybody.
OFFLINE: Mapping[str, str] = {"LLAMA_ARG_OFFLINE": "1"}
_SHARD = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf")


class Servable(Protocol):
    """The part of a recipe that the command line is made of."""

    @property
    def name(self) -> str: ...
    @property
    def served_name(self) -> str: ...
    @property
    def context(self) -> int: ...
    @property
    def flags(self) -> Mapping[str, str | int | float | bool]: ...


def argv(
    recipe: Servable,
    *,
    binary: str,
    model: str,
    port: int,
    listen: str,
    api_key_file: str | None,
) -> tuple[str, ...]:
    """The words of the command: what sparkwright owns first, then the recipe's flags by name.

    Flags are sorted, so that moving a line in a recipe restarts nothing.

    Raises SparkwrightError for a flag with the value false: llama-server has no such form.
    """
    words = [binary, "--model", model, "--alias", recipe.served_name]
    words += ["--host", listen, "--port", str(port), "--ctx-size", str(recipe.context)]
    if api_key_file is not None:
        # The file, never --api-key: argv is readable by every user of the machine.
        words += ["--api-key-file", api_key_file]
    for name, value in sorted(recipe.flags.items()):
        if value is False:
            raise SparkwrightError(
                f"{recipe.name}: flags/{name}: false has no form on a command line; "
                f"remove the flag, or use its opposite (--no-{name}) if the engine has one"
            )
        words.append(f"--{name}")
        if value is not True:
            words.append(str(value))
    return tuple(words)


def offline(facts: EngineFacts | None) -> Mapping[str, str]:
    """Variables that keep this build from the network; what it does not know is left out."""
    return {name: "1" for name in OFFLINE if facts is None or name in facts.env}


def first_shard(paths: Sequence[str]) -> str:
    """The path that --model wants, out of a manifest's file names.

    One .gguf file, or the first of a complete set of shards; llama.cpp finds the others by name.
    The same repository has both forms at different revisions.

    Raises SparkwrightError when there is none, more than one model, or a shard is missing.
    """
    models = sorted({path for path in paths if path.endswith(".gguf")})
    if not models:
        raise SparkwrightError("weights: no .gguf file among them; check the recipe's include")
    shards = [match for path in models if (match := _SHARD.fullmatch(path))]
    if len(models) == 1 and not shards:
        return models[0]
    stems = {(match["stem"], match["count"]) for match in shards}
    if len(shards) != len(models) or len(stems) != 1:
        raise SparkwrightError(
            f"weights: more than one model ({', '.join(models)}); narrow the recipe's include"
        )
    ((stem, count),) = stems
    wanted = [f"{stem}-{number:05d}-of-{count}.gguf" for number in range(1, int(count) + 1)]
    missing = sorted(set(wanted) - set(models))
    if missing or len(models) != len(wanted):
        what = f"shards missing: {', '.join(missing)}" if missing else "shard numbers out of range"
        raise SparkwrightError(f"weights: {what}; widen the recipe's include")
    return models[0]


def no_model(paths: Sequence[str]) -> list[str]:
    """Why `first_shard` finds no model, for messages that name a recipe's weights themselves."""
    try:
        first_shard(paths)
    except SparkwrightError as error:
        return [str(error).removeprefix("weights: ")]
    return []
