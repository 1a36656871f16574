"""Rules about values that an engine looks up late: parsers, backends, JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from sparkwright.lint import flags
from sparkwright.lint.context import Context
from sparkwright.lint.findings import Found, Verdict
from sparkwright.lint.model import Document, Engine, Kind, Launch
from sparkwright.lint.registry import launch_rule

WARN, BLOCK = Verdict.WARN, Verdict.BLOCK


@launch_rule(BLOCK, WARN)
def parser_name(launch: Launch, doc: Document, ctx: Context) -> Iterator[Found]:
    """A reasoning or tool parser that this release does not register.

    vLLM takes any text here and looks the name up only after it has loaded the weights: it dies
    after ten minutes with a KeyError or TypeError.

    Bad:
        vllm serve /srv/m --reasoning-parser gpt_oss

    Good:
        vllm serve /srv/m --reasoning-parser openai_gptoss

    Source: vllm v1/engine/core.py, structured_output/__init__.py (0.17.1); vllm/reasoning
    """
    for option, build in flags.options(launch, ctx):
        names = {
            "reasoning-parser": build.facts.reasoning_parsers,
            "tool-call-parser": build.facts.tool_parsers,
        }.get(option.name)
        kind = option.name.removesuffix("-parser")
        plugin = ctx.option(launch, f"{kind}-parser-plugin", "tool-parser-plugin")
        if not names or option.text is None or option.text in names or plugin is not None:
            continue
        yield Found(
            (option.value or option.spelled).at,
            f"{build.title} registers no {option.name.replace('-', ' ')} {option.text}",
            flags.nearest(option.text, names),
            sees=f"{flags.shown(option)}: fails after the weights are loaded",
            verdict=flags.stops(launch, ctx),
        )


@launch_rule(BLOCK, WARN)
def attention_backend_name(launch: Launch, doc: Document, ctx: Context) -> Iterator[Found]:
    """An attention backend that this release does not have.

    The name is no argparse choice: it is looked up while the engine starts.

    Bad:
        vllm serve /srv/m --attention-backend FLASHATTENTION

    Good:
        vllm serve /srv/m --attention-backend FLASH_ATTN

    Source: vllm v1/attention/backends/registry.py
    """
    option = ctx.option(launch, "attention-backend")
    build = ctx.build(launch)
    if build is None or option is None or option.text is None or launch.engine is not Engine.VLLM:
        return
    names = build.facts.attention_backends
    if names and option.text.upper() not in {*names, "AUTO"}:
        yield Found(
            (option.value or option.spelled).at,
            f"{build.title} has no attention backend {option.text}",
            flags.nearest(option.text.upper(), names),
            sees=flags.shown(option),
            verdict=flags.stops(launch, ctx),
        )


@launch_rule(BLOCK)
def json_value(launch: Launch, doc: Document, ctx: Context) -> Iterator[Found]:
    """A value that should be JSON and is not, after the shell took its quotes.

    Without single quotes a shell takes the double ones away, and splits at commas in braces:
    `{"a":"b","c":3}` becomes the two words `a:b` and `c:3`.

    Bad:
        vllm serve /srv/m --speculative-config {"method":"mtp","num_speculative_tokens":3}

    Good:
        vllm serve /srv/m --speculative-config '{"method":"mtp","num_speculative_tokens":3}'

    Source: bash manual, "Brace Expansion" and "Quote Removal"
    """
    if doc.kind in (Kind.UNIT, Kind.DROPIN) or launch.engine is not Engine.VLLM:
        return
    for option in ctx.options(launch):
        word = option.value
        if word is None or word.text is None or word.maybe:
            continue
        split = re.match(r"^\{\"?\w+\"?:.*,.*\}$", word.raw) and not word.text.startswith("{")
        if not split and (word.text[:1] not in "{[" or word.text == "" or _is_json(word.text)):
            continue
        if word.text.startswith("[") and '"' not in word.raw:
            continue  # a list of plain words may be meant as text
        yield Found(
            word.at,
            f"the value of {option.spelled.text} is no JSON when vLLM gets it",
            f"write '{word.raw.strip(chr(39))}' in single quotes",
            sees=word.text,
        )


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
