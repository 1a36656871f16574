"""The introspection of real releases against what their own parsers know: golden/, exact.py."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from sparkwright.engine_facts import EngineFacts
from sparkwright.vllm_history import DATA, releases
from sparkwright.vllm_learn import encode, learn
from sparkwright.vllm_releases import facts_of

from .sources import sources

GOLDEN = Path(__file__).with_name("golden")
# Values that these releases check after their parser: it knows none, the introspection does.
LATE = {
    "0.17.1": {"--quantization", "--load-format"},
    "0.33.0": {"--quantization", "--load-format", "--kv-cache-dtype"},
}
# The word that means "choose for me" where the setting takes it; no member of the enumeration.
AUTO = {"0.17.1": set(), "0.33.0": {"AUTO"}}
# Depends on the device: golden/ was made on a CPU, a spark is asked for cuda.
DEVICE = {"0.17.1": {}, "0.33.0": {"--mm-processor-device": ["auto", "cpu", "cuda"]}}


@pytest.fixture(scope="module", params=["0.17.1", "0.33.0"])
def real(request: pytest.FixtureRequest) -> tuple[EngineFacts, dict[str, Any]]:
    version = request.param
    return learn(sources(version)), json.loads((GOLDEN / f"vllm-{version}.json").read_text())


def test_identity(real: tuple[EngineFacts, dict[str, Any]]) -> None:
    facts, golden = real
    assert (facts.engine, facts.build, facts.version) == ("vllm", "stock", golden["version"])


def test_every_variable_and_its_values(real: tuple[EngineFacts, dict[str, Any]]) -> None:
    facts, golden = real
    wanted = {name: None if v is None else tuple(v) for name, v in golden["env"].items()}
    assert dict(facts.env) == wanted


def test_every_flag_with_its_values_and_none_besides(
    real: tuple[EngineFacts, dict[str, Any]],
) -> None:
    facts, golden = real
    wanted = {n: f for n, f in golden["flags"].items() if n.startswith("--")}
    assert {f"--{name}" for name in facts.flags} == set(wanted)
    for name, flag in wanted.items():
        found = facts.flags[name[2:]]
        assert found.value == flag["value"], name
        choices = DEVICE[facts.version].get(name, flag["choices"])
        if name in LATE[facts.version]:
            assert choices is None
            assert found.choices
        else:
            assert found.choices == (None if choices is None else tuple(choices)), name


@pytest.mark.parametrize("kind", ["reasoning_parsers", "tool_parsers", "attention_backends"])
def test_every_name(real: tuple[EngineFacts, dict[str, Any]], kind: str) -> None:
    facts, golden = real
    extra = AUTO[facts.version] if kind == "attention_backends" else set()
    assert set(getattr(facts, kind)) == set(golden[kind]) | extra
    assert len(getattr(facts, kind)) == len(golden[kind]) + len(extra)


def test_the_data_file_says_the_same(real: tuple[EngineFacts, dict[str, Any]]) -> None:
    facts, _ = real
    assert facts_of(facts.version) == facts


def test_the_data_file_is_what_the_releases_encode_to() -> None:
    assert encode([facts_of(version) for version in releases()]) == DATA.read_text()


# Variables of each release, counted on their own with another reader of envs.py.
COUNTS = (
    "0.13.0 222, 0.14.1 230, 0.16.0 218, 0.17.0 232, 0.17.1 232, 0.18.0 233, 0.18.1 233, "
    "0.19.0 238, 0.19.1 238, 0.20.0 249, 0.20.2 250, 0.21.0 253, 0.22.1 266, 0.23.0 268, "
    "0.24.0 268, 0.25.1 273, 0.26.0 280, 0.27.1 285, 0.28.0 295, 0.29.0 302, 0.30.0 302, "
    "0.31.0 308, 0.32.0 316, 0.33.0 318"
)


def test_the_releases_have_as_many_variables_as_were_counted() -> None:
    counts = {version: int(count) for version, count in re.findall(r"([\d.]+) (\d+)", COUNTS)}
    assert {version: len(facts_of(version).env) for version in releases()} == counts
