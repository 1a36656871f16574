"""From a recipe to its unit to the lint: whatever a recipe may say, its unit is clean."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from sparkwright import serving
from sparkwright.engine_facts import EngineFacts
from sparkwright.lint.catalog import llama
from sparkwright.lint.run import lint_unit
from sparkwright.recipe_types import Recipe
from sparkwright.resources import State
from sparkwright.site import Planned
from sparkwright.units import render_unit
from tests.lint.test_own_units import doubts
from tests.unit import vllm_case
from tests.unit.machine_case import PLACE

CASES = [*vllm_case.cases(), ("gpt-oss-120b-llamacpp", "llama.cpp")]
# What a value may be. Not "~", "$" and "%": a value that begins with them is a mistake of its own.
WORDS = st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="~$%#{"))
LETTERS = st.characters(categories=["L", "N", "P"], include_characters=" ")
TEXTS = st.text(LETTERS, max_size=40).map(lambda text: f"x{text}x")
JSON = st.dictionaries(WORDS, st.booleans() | st.integers() | WORDS, min_size=1, max_size=3)


@dataclass(frozen=True)
class Rendered:
    """A unit's file name and text, and the build that it is for."""

    name: str
    text: str
    facts: EngineFacts | None = field(repr=False)


@st.composite
def changed(draw: st.DrawFn, recipe: Recipe) -> Recipe:
    """A recipe with what its author may choose: names, memory, limits, variables."""
    more: dict[str, str | int | float | bool] = {}
    if recipe.runs_vllm:
        more["gpu-memory-utilization"] = draw(st.integers(10, 80)) / 100
        more["max-num-seqs"] = draw(st.integers(1, 2048))
        more["max-num-batched-tokens"] = draw(st.integers(1024, 16384))
        if draw(st.booleans()):
            more["default-chat-template-kwargs"] = json.dumps(draw(JSON))
    elif recipe.engine == "llama.cpp":
        more["parallel"] = draw(st.integers(1, 64))
        more["chat-template-kwargs"] = json.dumps(draw(JSON))
    return dataclasses.replace(
        recipe,
        description=draw(TEXTS),
        served_name=draw(st.from_regex(r"[a-z0-9][a-z0-9._-]{0,20}", fullmatch=True)),
        memory_gib=draw(st.integers(1, 109)),
        flags={**recipe.flags, **more} if recipe.served_name else recipe.flags,
        env={**recipe.env, "SETTING": draw(TEXTS), "OTHER": "x" + draw(WORDS)},
        load_timeout_s=draw(st.integers(1800, 7200)),  # less is a warning of its own
    )


@st.composite
def rendered(draw: st.DrawFn) -> Rendered:
    """A recipe of ours, changed, on a machine with one of the builds that can serve it."""
    name, build = draw(st.sampled_from(CASES))
    recipe = draw(changed(vllm_case.recipe(name)))
    wanted = dataclasses.replace(
        vllm_case.item(recipe, build),
        port=draw(st.integers(1024, 65535)),
        listen=draw(st.sampled_from(["127.0.0.1", "0.0.0.0", "192.168.7.9"])),
        api_key="generate",  # without one a listener for all is a warning of its own
        state=draw(st.sampled_from(["running", "standby"])),
    )
    place, facts = PLACE, vllm_case.BUILDS.get(build)
    found: list[State] = []
    if build == "image":
        place, found = vllm_case.image(wanted, vllm_case.IMAGES[name])
        facts = vllm_case.IMAGES[name]
    elif build == "llama.cpp":
        wanted, facts = of_llama(wanted), llama()
        kept = {"type": "file", "text": json.dumps(dataclasses.asdict(facts))}
        found = [{"type": "link", "target": "0a1b2c3d4e5f"}, kept]
    else:
        found = vllm_case.venv(facts, build)
    service = serving.service_of(wanted, [wanted], place, vllm_case.seen(*found))
    return Rendered(f"{service.name}.service", render_unit(service), facts)


def of_llama(wanted: Planned) -> Planned:
    """With the files that llama-server loads."""
    shards = tuple(f"gpt-oss-120b-mxfp4-0000{number}-of-00003.gguf" for number in (1, 2, 3))
    return dataclasses.replace(wanted, files=shards)


@settings(max_examples=300, deadline=None)
@given(rendered())
def test_a_rendered_unit_is_clean(unit: Rendered) -> None:
    found = lint_unit(unit.text, unit.facts, unit.name)
    assert [item for item in found if item.rule not in doubts(unit.facts)] == []
