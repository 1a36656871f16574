"""The words after `vllm serve`, and the variables that every vLLM of ours has."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import pytest

from sparkwright import serving, vllm_server
from tests.unit.machine_case import PLACE
from tests.unit.vllm_case import BUILDS, FORK, STOCK, item, names, recipe, seen, venv

WITH_A_SHARE = (*names(), "gpt-oss-120b-fork", "nemotron-3-super-120b-0.17")

Value = str | int | float | bool


def words(flags: Mapping[str, Value], backend: Mapping[str, Value]) -> tuple[str, ...]:
    wanted = dataclasses.replace(
        recipe("gpt-oss-120b"), served_name="a model", context=4096, flags=flags
    )
    return vllm_server.words(
        wanted, model="/srv/m", port=8001, listen="::1", backend=backend
    )  # fmt: skip


def test_owned_words_first_then_flags_by_name() -> None:
    flags: dict[str, Value] = {"max-num-seqs": 8, "async-scheduling": True, "gpu-memory": 0.7}
    assert words(flags, {"moe-backend": "marlin"}) == (
        "/srv/m", "--served-model-name", "a model", "--host", "::1", "--port", "8001",
        "--max-model-len", "4096", "--async-scheduling", "--gpu-memory", "0.7",
        "--max-num-seqs", "8", "--moe-backend", "marlin",
    )  # fmt: skip


def test_the_recipe_wins_over_the_backend() -> None:
    found = words({"moe-backend": "triton"}, {"moe-backend": "marlin", "linear-backend": "marlin"})
    assert found[-4:] == ("--linear-backend", "marlin", "--moe-backend", "triton")


def test_numbers_and_json_stay_as_they_are() -> None:
    json = '{"method":"mtp","num_speculative_tokens":3}'
    assert words({"speculative-config": json, "x": 1.0}, {})[-4:] == (
        "--speculative-config", json, "--x", "1.0",
    )  # fmt: skip


def test_every_cache_is_below_the_units_directory() -> None:
    found = vllm_server.caches("/srv/c")
    assert all(f"{value}/".startswith("/srv/c/") for value in found.values())


def test_variables_of_ours_are_known_to_every_build() -> None:
    """An unknown one would end a start with --fail-on-environ-validation."""
    ours = [n for n in (*vllm_server.OFFLINE, *vllm_server.caches("/c")) if n.startswith("VLLM_")]
    assert ours
    for facts in (*BUILDS.values(), FORK):
        assert set(ours) <= set(facts.env), facts.title


def test_more_memory_than_the_recipe_says_is_refused_with_both_numbers() -> None:
    wanted = recipe("gpt-oss-120b")
    assert vllm_server.over_budget(wanted, 121.69) == []
    assert vllm_server.over_budget(wanted, 128.6) == [
        "gpu-memory-utilization 0.7 takes 90.0 of 128.6 GiB, but memory_gib is 90; raise "
        "memory_gib to 91 or more, or lower gpu-memory-utilization to 0.69",
    ]
    assert vllm_server.over_budget(dataclasses.replace(wanted, memory_gib=60), 121.69) == [
        "gpu-memory-utilization 0.7 takes 85.2 of 121.7 GiB, but memory_gib is 60; raise "
        "memory_gib to 86 or more, or lower gpu-memory-utilization to 0.49",
    ]


@pytest.mark.parametrize("name", WITH_A_SHARE)
def test_the_share_of_a_recipe_fits_its_memory_on_every_spark(name: str) -> None:
    """MemTotal is 119.7 to 121.7 GiB; 12 are the reserve of the settings."""
    wanted = recipe(name)
    for total in (119.7, 121.7):
        assert vllm_server.over_budget(wanted, total) == []
        assert wanted.memory_gib <= total - PLACE.reserve_gib
    assert vllm_server.over_budget(wanted, 400)


def test_a_page_and_llama_server_take_no_share() -> None:
    for name in ("open-webui", "gpt-oss-120b-llamacpp"):
        assert vllm_server.over_budget(recipe(name), 4000) == []


def test_the_memory_of_the_machine_comes_from_its_own_answer() -> None:
    wanted, found = item(recipe("gpt-oss-120b")), seen(*venv(STOCK))
    small = dataclasses.replace(found, host={**found.host, "mem_total": 64 * serving.GIB})
    assert serving.launched(wanted, PLACE, small)[1].refused == ()
    huge = dataclasses.replace(found, host={**found.host, "mem_total": 400 * serving.GIB})
    (wrong,) = serving.launched(wanted, PLACE, huge)[1].refused
    assert wrong.startswith("gpu-memory-utilization 0.7 takes 280.0 of 400.0 GiB")
