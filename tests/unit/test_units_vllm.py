"""Units of vLLM: golden text for each recipe and build; the lab lets systemd read them."""

from __future__ import annotations

import json
import re
import shlex

import pytest

from tests.unit.service_case import GOLDEN as LLAMA
from tests.unit.vllm_case import (
    BUILDS,
    ENDPOINTS,
    GOLDEN,
    VENV,
    cases,
    golden,
    recipe,
    unit_text,
    venv_cases,
)

each_unit = pytest.mark.parametrize(("name", "profile"), venv_cases())


@pytest.mark.parametrize(("name", "build"), cases())
def test_golden(name: str, build: str) -> None:
    """A wanted change: `python -m tests.unit.vllm_case`, then read the difference."""
    assert unit_text(name, build) == golden(name, build).read_text()


def test_every_recipe_has_a_golden_unit_and_none_is_left_over() -> None:
    assert {*GOLDEN.glob("*.service")} == {LLAMA, *(golden(*case) for case in cases())}
    recipes = {path.stem for path in (GOLDEN.parents[1] / "recipes").glob("[!_]*.yaml")}
    assert recipes == {*(name for name, _ in cases()), LLAMA.stem.removeprefix("llm-")}


def test_the_page_knows_the_models_of_the_fleet_and_no_network() -> None:
    text = unit_text("open-webui", "image")
    assert f"OPENAI_API_BASE_URLS={';'.join(ENDPOINTS)}" in text
    assert "OFFLINE_MODE=True" in text
    assert "--network host" in text.replace(" \\\n    ", " ")


def test_the_fork_gets_its_own_flags_and_the_old_image_its_variable() -> None:
    fork, old = (
        unit_text(name, "image") for name in ("gpt-oss-120b-fork", "nemotron-3-super-120b-0.17")
    )
    assert "--mxfp4-backend CUTLASS" in fork
    assert "--mxfp4-layers moe,qkv,o,lm_head" in fork
    assert "--env VLLM_NVFP4_GEMM_BACKEND=marlin" in old
    assert "--moe-backend marlin" in old
    assert "speculative" not in old


def words(text: str) -> list[str]:
    """The program and its words, as systemd would hand them over."""
    found = re.search(r"^ExecStart=((?:.*\\\n)*.*)$", text, re.M)
    assert found
    return shlex.split(found[1].replace("\\\n", ""))


def variables(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in re.findall(r'^Environment="(.+)"$', text, re.M))


@each_unit
def test_what_every_vllm_unit_promises(name: str, profile: str) -> None:
    text = unit_text(name, profile)
    env, argv, here = variables(text), words(text), f"/srv/sparkwright/cache/llm-{name}"
    assert argv[:2] == [f"/opt/sparkwright/vllm/{profile}-{VENV}/bin/vllm", "serve"]
    assert argv[2].startswith("/srv/sparkwright/weights/")
    assert "--fail-on-environ-validation" in argv
    assert "--enforce-eager" not in argv
    # No name on the Hub is looked up, nothing is reported, every cache is the unit's own.
    assert env["HF_HUB_OFFLINE"] == env["TRANSFORMERS_OFFLINE"] == env["VLLM_NO_USAGE_STATS"] == "1"
    caches = [v for v in env if v.endswith(("HOME", "_CACHE_DIR", "_ROOT", "_PATH", "_BASE"))]
    elsewhere = {"CUDA_HOME", "TIKTOKEN_CACHE_DIR", "TIKTOKEN_RS_CACHE_DIR"}
    assert {"HOME", "TRITON_CACHE_DIR", "FLASHINFER_WORKSPACE_BASE"} <= set(caches)
    for variable in {*caches} - elsewhere - {"TIKTOKEN_ENCODINGS_BASE"}:
        assert f"{env[variable]}/".startswith(f"{here}/"), variable
    assert f"ReadWritePaths={here}" in text.splitlines()
    assert env["PATH"].split(":")[:2] == [argv[0].removesuffix("/vllm"), "/usr/local/cuda/bin"]
    # The key comes from a file that systemd reads, never from the unit or the command line.
    assert "EnvironmentFile=/etc/sparkwright/api-key.env" in text.splitlines()
    assert "--api-key" not in argv
    assert "VLLM_API_KEY" not in env


@each_unit
def test_json_reaches_vllm_as_it_is_written(name: str, profile: str) -> None:
    """systemd takes quotes out of a word (S08)."""
    wanted = [value for value in recipe(name).flags.values() if str(value).startswith(("{", "["))]
    given = words(unit_text(name, profile))
    assert [word for word in given if word.startswith(("{", "["))] == wanted
    assert all(json.loads(str(value)) for value in wanted)


@each_unit
def test_a_variable_that_the_build_does_not_know_is_in_no_unit(name: str, profile: str) -> None:
    known = BUILDS[profile].env
    ours = [v for v in variables(unit_text(name, profile)) if v.startswith("VLLM_")]
    assert [variable for variable in ours if variable not in known] == []
