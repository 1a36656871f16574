"""What runs inside a container: the words of the machine itself, from the same functions. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sparkwright import engine_vllm, llama_server, vllm_server
from sparkwright.engine_facts import EngineFacts, refused
from sparkwright.engines import Place, key_file
from sparkwright.errors import SparkwrightError
from sparkwright.recipe_types import Container
from sparkwright.site import Planned, need

# What vLLM's images start with; their own entry points differ from release to release.
VLLM = ("vllm", "serve")


@dataclass(frozen=True)
class Inside:
    """What runs in the container: program first, its variables, and what the build refuses."""

    words: tuple[str, ...]
    env: Mapping[str, str]
    log_must: tuple[str, ...] = ()
    log_must_not: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def cache_dir(item: Planned, place: Place) -> str:
    """The unit's own directory, which the container sees under the same path."""
    return f"{place.data_dir}/cache/{item.unit}"


def _door(item: Planned, container: Container) -> tuple[str, int]:
    """Where the server inside listens: at the recipe's own address, or behind a published port."""
    return ("0.0.0.0", container.port) if container.port else (item.listen, item.port)  # noqa: S104


def of(item: Planned, place: Place, facts: EngineFacts | None) -> Inside:
    """The command of a recipe inside its image, for what that image knows."""
    container = need(item.recipe.container)
    if container.serves == "vllm":
        return _vllm(item, place, container, facts)
    program = container.command[:1]
    if container.serves == "openai" and program and program[0].endswith("llama-server"):
        return _llama(item, place, container, facts)
    values = _values(item, place, container)
    words = [*container.command, *_flags(item.recipe.flags)]
    env = {} if container.serves == "web" else dict(place.tiktoken)
    env |= {name: fill(text, values) for name, text in item.recipe.env.items()}
    return Inside(tuple(fill(word, values) for word in words), env)


def _vllm(item: Planned, place: Place, container: Container, facts: EngineFacts | None) -> Inside:
    listen, port = _door(item, container)
    backend, wrong = engine_vllm.choose(item, facts)
    command = container.command or VLLM
    own = vllm_server.words(
        item.recipe,
        model=need(item.weights).directory,
        port=port,
        listen=listen,
        backend=backend.flags,
    )
    env = {**engine_vllm.environment(cache_dir(item, place), place), **backend.env}
    env |= item.recipe.env
    if facts:
        wrong = [*wrong, *refused(own, env, facts)]
    must = backend.log_must, backend.log_must_not
    return Inside((*command, *own), env, *must, tuple(wrong), backend.notes)


def _llama(item: Planned, place: Place, container: Container, facts: EngineFacts | None) -> Inside:
    listen, port = _door(item, container)
    own = llama_server.argv(
        item.recipe,
        binary=container.command[0],
        model=f"{need(item.weights).directory}/{llama_server.first_shard(item.files)}",
        port=port,
        listen=listen,
        api_key_file=key_file(item, place.etc_dir),
    )
    words = (own[0], *container.command[1:], *own[1:])
    env = {**place.tiktoken, **llama_server.offline(facts), **item.recipe.env}
    return Inside(words, env, refused=tuple(refused(words[1:], env, facts) if facts else ()))


def _values(item: Planned, place: Place, container: Container) -> dict[str, str]:
    listen, port = _door(item, container)
    return {
        "model": item.weights.directory if item.weights else "",
        "served_name": item.recipe.served_name,
        "context": str(item.recipe.context),
        "listen": listen,
        "port": str(port),
        "key_file": key_file(item, place.etc_dir) or "",
        "endpoints": ";".join(place.endpoints),
    }


def fill(text: str, values: Mapping[str, str]) -> str:
    """Put values in place of {model}, {port} …; other braces (JSON) stay as they are."""
    for name, value in values.items():
        text = text.replace("{" + name + "}", value)
    return text


def _flags(flags: Mapping[str, str | int | float | bool]) -> list[str]:
    words = []
    for name, value in sorted(flags.items()):
        if value is False:
            raise SparkwrightError(f"flags/{name}: false has no form on a command line; remove it")
        words += [f"--{name}"] if value is True else [f"--{name}", str(value)]
    return words
