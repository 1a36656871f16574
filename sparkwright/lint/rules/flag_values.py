"""Rules about the values of flags: choices, arity, names that are looked up late."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sparkwright.lint import flags
from sparkwright.lint.context import Context
from sparkwright.lint.findings import Found, Verdict
from sparkwright.lint.model import Document, Engine, Launch
from sparkwright.lint.options import Option
from sparkwright.lint.registry import launch_rule

WARN, BLOCK = Verdict.WARN, Verdict.BLOCK
# Plug-ins add names, and a checkpoint's own method wins over a word that nobody knows
# (vllm/config/model.py _verify_quantization).
_OPEN: Final = frozenset({"quantization", "load-format"})
_SWITCH: Final = frozenset({"true", "false", "on", "off", "yes", "no", "0", "1"})


@launch_rule(BLOCK, WARN)
def flag_choice(launch: Launch, doc: Document, ctx: Context) -> Iterator[Found]:
    """A value that the flag does not take in this release.

    argparse stops with exit code 2; where vLLM checks later, it stops while it loads.

    Bad:
        vllm serve /srv/m --moe-backend marlin-fp4

    Good:
        vllm serve /srv/m --moe-backend marlin

    Source: the build's own choices
    """
    for option, build in flags.options(launch, ctx):
        flag = flags.known(option, build)
        value = option.text
        if (
            flag is None
            or flag.choices is None
            or not flag.choices
            or value is None
            or option.dotted
        ):
            continue
        if option.name.endswith("-backend") and launch.engine is Engine.VLLM:
            value = value.lower().replace("-", "_")
        allowed = {choice.lower() for choice in flag.choices}
        if value not in flag.choices and value.lower() not in allowed:
            yield Found(
                (option.value or option.spelled).at,
                f"--{option.name} takes {', '.join(flag.choices)} in {build.title}, not {value}",
                flags.nearest(value, flag.choices),
                sees=flags.shown(option),
                verdict=WARN if option.name in _OPEN else flags.stops(launch, ctx),
            )


@launch_rule(BLOCK, WARN)
def flag_without_value(launch: Launch, doc: Document, ctx: Context) -> Iterator[Found]:
    """A flag that wants a value, with none behind it.

    The next word is an option or the line ends: the engine stops, "expected one argument". A bare
    `-fa` of llama-server is the best known one: since autumn 2025 it wants on, off or auto.

    Bad:
        llama-server -m /srv/m.gguf -fa --port 8080

    Good:
        llama-server -m /srv/m.gguf -fa on --port 8080

    Source: yazon/flexllama#15; defilantech/LLMKube#147; llama.cpp common/arg.cpp
    """
    for option, build in flags.options(launch, ctx):
        flag = flags.known(option, build)
        if flag is None or flag.value is not True or option.value is not None or option.dotted:
            continue
        if _unknown_follows(option, launch):
            continue
        after = _after(option, launch)
        eaten = f"it takes the next word, {after}, as its value" if after else "the line ends there"
        fix = (
            "write -fa on"
            if option.name == "flash-attn"
            else f"write a value after it{_some(flag.choices)}"
        )
        yield Found(
            option.spelled.at,
            f"{option.spelled.text} wants a value in {build.title}; {eaten}",
            fix,
            sees=f"{option.spelled.raw} {after}".strip(),
            verdict=flags.stops(launch, ctx),
        )


def _some(choices: tuple[str, ...] | None) -> str:
    return f" ({', '.join(choices[:6])})" if choices else ""


def _after(option: Option, launch: Launch) -> str:
    at = next(i for i, word in enumerate(launch.argv) if word is option.spelled)
    return launch.argv[at + 1].raw if at + 1 < len(launch.argv) else ""


def _unknown_follows(option: Option, launch: Launch) -> bool:
    """A variable behind it may hold the value."""
    at = next((i for i, word in enumerate(launch.argv) if word is option.spelled), -1)
    return at + 1 < len(launch.argv) and launch.argv[at + 1].text is None


@launch_rule(BLOCK, WARN)
def flag_with_value(launch: Launch, doc: Document, ctx: Context) -> Iterator[Found]:
    """A switch with a value behind it.

    vLLM's switches are bare: `--enforce-eager true` leaves a stray word, and argparse stops;
    `--trust-remote-code=true` too.

    Bad:
        vllm serve /srv/m --enable-prefix-caching true

    Good:
        vllm serve /srv/m --enable-prefix-caching

    Source: python docs, argparse; vllm/engine/arg_utils.py
    """
    for option, build in flags.options(launch, ctx):
        flag = flags.known(option, build)
        if flag is None or flag.value is not False or option.dotted:
            continue
        after = next((i for i, word in enumerate(launch.argv) if word is option.spelled), -1) + 1
        word = launch.argv[after] if 0 < after < len(launch.argv) else None
        loose = word is not None and (word.text or "").lower() in _SWITCH
        if option.glued or loose:
            yield Found(
                option.spelled.at,
                f"--{option.name} takes no value in {build.title}",
                f"write --{option.name} alone, or remove it",
                sees=option.spelled.raw
                if option.glued
                else f"{option.spelled.raw} {word.raw if word else ''}",
                verdict=flags.stops(launch, ctx),
            )
