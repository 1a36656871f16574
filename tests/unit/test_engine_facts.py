"""Facts of an engine's build, and what that build would refuse."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkwright.engine_facts import EngineFacts, Flag, read_facts, refused
from sparkwright.errors import SparkwrightError
from sparkwright.vllm_releases import facts_of

NEW, OLD = facts_of("0.33.0"), facts_of("0.17.1")
PRINTED: dict[str, Any] = {
    "engine": "vllm",
    "build": "stock",
    "version": "0.33.0",
    "env": {"VLLM_A": None, "VLLM_B": ["x", "y"]},
    "deprecated": {"VLLM_A": "goes away in v1: Use --a."},
    "flags": {"port": {"choices": None, "value": True}},
    "reasoning_parsers": ["qwen3"],
    "tool_parsers": [],
    "attention_backends": ["FLASHINFER"],
}


def test_facts_are_read_as_they_are_printed() -> None:
    facts = read_facts(json.dumps(PRINTED))
    assert facts == EngineFacts(
        "vllm", "stock", "0.33.0",
        env={"VLLM_A": None, "VLLM_B": ("x", "y")},
        deprecated={"VLLM_A": "goes away in v1: Use --a."},
        flags={"port": Flag(None, True)},
        reasoning_parsers=("qwen3",),
        attention_backends=("FLASHINFER",),
    )  # fmt: skip
    assert facts.title == "vllm 0.33.0 (stock)"


@pytest.mark.parametrize(
    "text", ["", "null", "[]", "{}", "Traceback\nImportError: no vllm", '{"engine": "vllm"}']
)
def test_anything_else_is_an_error_that_shows_it(text: str) -> None:
    with pytest.raises(SparkwrightError, match="introspection: not the facts of an engine") as at:
        read_facts(text)
    assert (text.splitlines() or ["nothing"])[-1] in str(at.value)


@pytest.mark.parametrize("key", PRINTED)
def test_facts_without_a_part_are_an_error(key: str) -> None:
    with pytest.raises(SparkwrightError, match=key):
        read_facts(json.dumps({name: part for name, part in PRINTED.items() if name != key}))


@given(st.text())
def test_reading_never_fails_in_another_way(text: str) -> None:
    with pytest.raises(SparkwrightError):
        read_facts(text)


TAKEN = [
    "--port 8001",
    "--port=8001",
    "--max_num_seqs 8",  # vLLM takes `_` for `-`
    "--enforce-eager",
    "--no-enforce-eager",
    "--enable-prefix-caching --port 1",
    "--disable-prefix-caching",  # 0.33 pairs both
    "--no-enable-prefix-caching",  # hidden from its help, still taken
    "--moe-backend marlin",
    "--moe-backend FlashInfer-CUTLASS",  # vLLM lowers it and takes `-` for `_`
    "--attention-backend triton_attn",
    "--attention-backend auto",
    "--kv-cache-dtype fp8",
    "--device-memory-utilization 0.8",  # another name of --gpu-memory-utilization
    '--speculative-config {"method":"mtp"}',
    "--quantization-config.moe.activation mxfp8",
    "--compilation-config.cudagraph_mode=FULL",
    "--reasoning-parser nemotron_v3 --tool-call-parser qwen3_coder --enable-auto-tool-choice",
    "--reasoning-parser mine --reasoning-parser-plugin /p.py",
    "--tool-call-parser=mine --tool-parser-plugin=/p.py",
    "--seed -1",
    "--allowed-origins [\"*\"]",
    "--hf-token",  # with or without a value
    "--hf-token abc",
]  # fmt: skip


@pytest.mark.parametrize("words", TAKEN)
def test_what_the_build_takes_is_not_refused(words: str) -> None:
    assert refused(["vllm", "serve", "/m", *words.split()], {}, NEW) == []


REFUSED = {
    "--mxfp4-layers moe": "--mxfp4-layers: unknown to vllm 0.33.0 (stock)",
    "--swap-space 4": "--swap-space: unknown to vllm 0.33.0 (stock); in vLLM 0.13.0 - 0.17.1",
    "--max-num-seq 8": "--max-num-seq: an abbreviation in vllm 0.33.0 (stock); "
    "write --max-num-seqs",
    "--gpu-memory-utilisation 1": "--gpu-memory-utilisation: unknown to vllm 0.33.0 (stock); "
    "did you mean --gpu-memory-utilization?",
    "-tp 2": "-tp: a short option; write its long name",
    "-O3": "-O3: a short option; write its long name",
    "--port": "--port: vllm 0.33.0 (stock) wants a value after it",
    "--port --enforce-eager": "--port: vllm 0.33.0 (stock) wants a value after it",
    "--enforce-eager true": "--enforce-eager: takes no value in vllm 0.33.0 (stock), "
    "but true follows",
    "--enforce-eager=1": "--enforce-eager: takes no value in vllm 0.33.0 (stock), but 1 follows",
    "--moe-backend marlni": "--moe-backend marlni: vllm 0.33.0 (stock) takes ",
    "--load-format gguf": "--load-format gguf: vllm 0.33.0 (stock) takes ",
    "--kv-cache-dtype fp7": "--kv-cache-dtype fp7: vllm 0.33.0 (stock) takes ",
    "--attention-backend FLASHINFR": "--attention-backend FLASHINFR: vllm 0.33.0 (stock) takes ",
    "--reasoning-parser nemotron-v3": "--reasoning-parser nemotron-v3: vllm 0.33.0 (stock) has ",
    "--tool-call-parser nonexistent": "--tool-call-parser nonexistent: vllm 0.33.0 (stock) has ",
    "--foo.bar x": "--foo.bar: unknown to vllm 0.33.0 (stock)",
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_the_build_does_not_take_is_refused_with_a_reason(words: str) -> None:
    (phrase,) = refused(["vllm", "serve", "/m", *words.split()], {}, NEW)
    assert phrase.startswith(REFUSED[words])


def test_a_value_near_a_known_one_is_suggested() -> None:
    (phrase,) = refused(["--reasoning-parser", "nemotron-v3"], {}, NEW)
    assert phrase.endswith("; did you mean nemotron_v3?")


@pytest.mark.parametrize(
    ("words", "taken"),
    [
        ("--linear-backend marlin", False),  # since 0.22.1
        ("--swap-space 4", True),
        ("--disable-prefix-caching", False),
        ("--reasoning-parser nemotron_v3", True),
        ("--attention-backend auto", False),
        ("--moe-backend b12x", False),
    ],
)
def test_another_release_takes_other_words(words: str, taken: bool) -> None:
    assert (refused(words.split(), {}, OLD) == []) is taken


ENV: list[tuple[str, str, EngineFacts, str]] = [
    ("VLLM_MXFP4_BACKEND", "marlin", OLD, "VLLM_MXFP4_BACKEND: unknown to vllm 0.17.1 (stock)"),
    ("VLLM_NVFP4_GEMM_BACKEND", "marlin", NEW,
     "VLLM_NVFP4_GEMM_BACKEND: unknown to vllm 0.33.0 (stock); in vLLM 0.13.0 - 0.23.0; "
     "goes away in v0.23: Use --linear-backend."),
    ("VLLM_NVFP4_GEMM_BACKEND", "b12x", OLD,
     "VLLM_NVFP4_GEMM_BACKEND=b12x: vllm 0.17.1 (stock) takes flashinfer-cudnn, "),
    ("VLLM_MARLIN_INPUT_DTYP", "fp8", NEW,
     "VLLM_MARLIN_INPUT_DTYP: unknown to vllm 0.33.0 (stock); "
     "did you mean VLLM_MARLIN_INPUT_DTYPE?"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value", "facts", "phrase"), ENV)
def test_variables_that_are_refused(name: str, value: str, facts: EngineFacts, phrase: str) -> None:
    (found,) = refused([], {name: value}, facts)
    assert found.startswith(phrase)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("VLLM_NVFP4_GEMM_BACKEND", "marlin"),
        ("VLLM_NVFP4_GEMM_BACKEND", ""),
        ("VLLM_GPT_OSS_SYSTEM_TOOL_MCP_LABELS", "container,code_interpreter"),
        ("VLLM_CACHE_ROOT", "/x"),
        ("NCCL_DEBUG", "INFO"),  # only names that the engine alone reads are judged
        ("HF_HUB_OFFLINE", "1"),
        ("LLAMA_ARG_NOTHING", "1"),
    ],
)
def test_variables_that_are_taken(name: str, value: str) -> None:
    assert refused([], {name: value}, OLD) == []


def test_everything_wrong_is_told_at_once() -> None:
    words = ["--moe-backend", "x", "--nope"]
    assert len(refused(words, {"VLLM_X": "1", "VLLM_Y": "1"}, NEW)) == 4


def test_a_build_without_names_judges_none() -> None:
    bare = dataclasses.replace(NEW, reasoning_parsers=(), tool_parsers=(), attention_backends=())
    words = "--reasoning-parser x --tool-call-parser y --attention-backend z"
    assert refused(words.split(), {}, bare) == []


@given(st.lists(st.text(alphabet=st.sampled_from("-a.=_ 1")), max_size=6))
def test_no_words_are_too_strange(words: list[str]) -> None:
    assert all(isinstance(phrase, str) for phrase in refused(words, {}, NEW))
