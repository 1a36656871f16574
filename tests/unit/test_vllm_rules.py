"""Recipes of vLLM and of containers: a table of bad ones with the exact messages."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkwright.recipes import load_recipe
from sparkwright.vllm_rules import OWN_ENV, REFUSED, TABLE_ENV
from tests.unit.recipe_case import CONTAINER, PAGE, VLLM, errors, write

X = "recipes/x.yaml: "
OURS = "sparkwright sets this flag itself; "
ENV = f"{X}env/"
BOX = f"{X}container"


def flags(text: str) -> dict[str, str | None]:
    """A recipe of vLLM with more flags."""
    return {**VLLM, "flags": f"{{gpu-memory-utilization: 0.5, {text}}}"}


def box(text: str) -> dict[str, str | None]:
    """A recipe of a container with another container section."""
    return {**CONTAINER, "container": text}


BAD: dict[str, tuple[dict[str, str | None], str]] = {
    # keys of other engines
    "profile_llama": (
        {"profile": "stock"},
        f"{X}profile: is for engine vllm, not llama.cpp; remove it",
    ),
    "kernels_llama": (
        {"kernels": "mxfp4"},
        f"{X}kernels: is for engine vllm or container, not llama.cpp; remove it",
    ),
    "container_vllm": (
        {**VLLM, "container": "{image: i, serves: vllm}"},
        f"{X}container: is for engine container, not vllm; remove it",
    ),
    "profile_container": (
        {**CONTAINER, "profile": "stock"},
        f"{X}profile: is for engine vllm, not container; remove it",
    ),
    "profile_name": (
        {**VLLM, "profile": "My Venv"},
        f"{X}profile: must name a vLLM venv, as the artifact vllm-<profile> does, not "
        '"My Venv"; write stock, for example',
    ),
    "kernels_word": (
        {**VLLM, "kernels": "fp4"},
        f'{X}kernels: must be mxfp4, nvfp4, int4 or fp8, not "fp4"; did you mean nvfp4?',
    ),
    # vLLM's flags
    "no_share": (
        {**VLLM, "flags": "{max-num-seqs: 8}"},
        f"{X}flags: gpu-memory-utilization is missing: vLLM would take 0.92 of the machine; "
        "write the share that memory_gib pays for, 0.7 for example",
    ),
    "no_flags": (
        {**VLLM, "flags": None},
        f"{X}flags: gpu-memory-utilization is missing: vLLM would take 0.92 of the machine; "
        "write the share that memory_gib pays for, 0.7 for example",
    ),
    **{
        f"share_{value}": (
            {**VLLM, "flags": f"{{gpu-memory-utilization: {value}}}"},
            f"{X}flags/gpu-memory-utilization: must be a number above 0 and at most 0.88: "
            "more wedges the machine; write 0.7, for example",
        )
        for value in ("0.9", "0.89", "0", "-0.5", "true", '"0.7"', "high", "70")
    },
    "share_list": (
        {**VLLM, "flags": "{gpu-memory-utilization: [0.7]}"},
        f"{X}flags/gpu-memory-utilization: must be text, a number or true, not a list; "
        "write JSON as one text in single quotes",
    ),
    "batch": (
        {**flags("max-num-batched-tokens: 65536"), "context": "65536"},
        f"{X}flags/max-num-batched-tokens: 65536 tokens at once, as long as the context, exhaust "
        "a GB10 (vllm-dflash#1); write 8192 or 16384",
    ),
    "kv_bytes": (
        flags("kv-cache-memory-bytes: 60G"),
        f"{X}flags/kv-cache-memory-bytes: skips vLLM's own memory check, and froze a machine "
        "(AEON-7/vllm-ultimate-dgx-spark#9); remove it; gpu-memory-utilization bounds the KV cache",
    ),
    "eager": (
        flags("enforce-eager: true"),
        f"{X}flags/enforce-eager: turns CUDA graphs off, which halves decode speed; "
        "remove it; to debug, run vllm by hand",
    ),
    "length": (flags("max-model-len: 8192"), f"{X}flags/max-model-len: {OURS}set context instead"),
    "underscore": (
        flags("max_num_seqs: 8"),
        f"{X}flags/max_num_seqs: write vLLM's long name with dashes between words and none in "
        "front; write max-num-seqs",
    ),
    "underscore_ours": (
        flags("max_model_len: 8"),
        f"{X}flags/max_model_len: {OURS}set context instead",
    ),
    "key": (
        flags("api-key: hunter2"),
        f"{X}flags/api-key: a key in a command line can be read by every user of the spark; "
        "set api_key: generate in sparks.yaml",
    ),
    "capital": (
        flags("Max-Seqs: 8"),
        f"{X}flags/Max-Seqs: is not a flag name; write vLLM's long name, as in max-num-seqs",
    ),
    "false": (
        flags("enable-prefix-caching: false"),
        f"{X}flags/enable-prefix-caching: false leaves a flag out; "
        "remove it, or write no-enable-prefix-caching: true",
    ),
    "empty": (
        flags("async-scheduling: "),
        f"{X}flags/async-scheduling: has no value; "
        "write async-scheduling: true for a flag without one",
    ),
    "json": (
        flags("speculative-config: {method: mtp}"),
        f"{X}flags/speculative-config: must be text, a number or true, not a map; "
        "write JSON as one text in single quotes",
    ),
    # vLLM's variables
    "table": (
        {**VLLM, "env": "{VLLM_NVFP4_GEMM_BACKEND: marlin}"},
        f"{ENV}VLLM_NVFP4_GEMM_BACKEND: the backend is chosen for the installed build (kernels); "
        "remove it, and set kernels",
    ),
    "own": (
        {**VLLM, "env": '{HF_HUB_OFFLINE: "0"}'},
        f"{ENV}HF_HUB_OFFLINE: sparkwright sets this variable itself; remove it",
    ),
    "secret": (
        {**VLLM, "env": "{VLLM_API_KEY: hunter2}"},
        f"{ENV}VLLM_API_KEY: secrets do not belong in a recipe or a unit; remove it",
    ),
    "marlin_fp8": (
        {**VLLM, "env": "{VLLM_MARLIN_INPUT_DTYPE: fp8}"},
        f"{ENV}VLLM_MARLIN_INPUT_DTYPE: corrupts answers of INT4 experts on GB10 (vllm#49546); "
        "remove it",
    ),
    "segments": (
        {**VLLM, "env": "{PYTORCH_CUDA_ALLOC_CONF: 'expandable_segments:True'}"},
        f"{ENV}PYTORCH_CUDA_ALLOC_CONF: with FlashInfer's autotuning it resets the machine "
        "(dgx-spark-playbooks#97); remove it, or set flags/no-enable-flashinfer-autotune: true",
    ),
    # containers
    "no_image": (box("{serves: openai}"), f"{BOX}: image is missing; add image: (text)"),
    "no_serves": (box("{image: i}"), f"{BOX}: serves is missing; add serves: (text)"),
    "serves": (
        box("{image: i, serves: http}"),
        f'{BOX}/serves: must be vllm, openai or web, not "http"; known: openai, vllm, web',
    ),
    "image": (
        box("{image: 'vllm/vllm-openai:v1', serves: openai}"),
        f"{BOX}/image: must be the name of an artifact of artifacts.lock.yaml, not "
        '"vllm/vllm-openai:v1"; write image-open-webui, for example',
    ),
    "typo": (
        box("{image: i, serves: openai, comand: [x]}"),
        f"{BOX}: unknown key comand; did you mean command?",
    ),
    "command": (
        box("{image: i, serves: openai, command: serve it}"),
        f"{BOX}/command: must be a list, not text",
    ),
    "port": (
        box("{image: i, serves: openai, port: 70000}"),
        f"{BOX}/port: must be 0 to 65535, not 70000",
    ),
    "volume": (
        box("{image: i, serves: openai, volumes: {../x: /data}}"),
        f"{BOX}/volumes/../x: is not a plain directory name; use letters, digits, '.', '-', '_'",
    ),
    "inside": (
        box("{image: i, serves: openai, volumes: {x: data}}"),
        f"{BOX}/volumes/x: must be an absolute path inside the container; write /app/data",
    ),
    "dots": (
        box("{image: i, serves: openai, volumes: {x: /a/../b}}"),
        f"{BOX}/volumes/x: must be an absolute path inside the container; write /app/data",
    ),
    "health": (
        box("{image: i, serves: openai, health: 'http://x/health'}"),
        f'{BOX}/health: must be a plain absolute path, not "http://x/health"; '
        "write /health, for example",
    ),
    "container_share": (
        {**CONTAINER, "container": "{image: i, serves: vllm}"},
        f"{X}flags: gpu-memory-utilization is missing: vLLM would take 0.92 of the machine; "
        "write the share that memory_gib pays for, 0.7 for example",
    ),
    "kernels_openai": (
        {**CONTAINER, "kernels": "mxfp4"},
        f"{X}kernels: says nothing to a container that serves openai; remove it",
    ),
    # web pages
    "page_weights": (
        {**PAGE, "weights": "{repo: a/b, revision: main, license: mit}", "context": "1"},
        f"{X}weights: says nothing to a container that serves web; remove it",
    ),
    "page_context": (
        {**PAGE, "context": "4096"},
        f"{X}context: says nothing without weights; remove it",
    ),
    "page_question": (
        {**PAGE, "acceptance": "{question: who, expect: x}"},
        f"{X}acceptance/question: is not asked of a web page; remove it",
    ),
    "page_tokens": (
        {**PAGE, "acceptance": "{max_tokens: 8, expect: x}"},
        f"{X}acceptance/max_tokens: is not asked of a web page; remove it",
    ),
    # acceptance
    "system": (
        {"acceptance": "{question: a, expect: b, system: c}"},
        f"{X}acceptance/system: stands with system_expect or not at all; write both, or neither",
    ),
    "system_expect": (
        {"acceptance": "{question: a, expect: b, system_expect: c}"},
        f"{X}acceptance/system_expect: stands with system or not at all; write both, or neither",
    ),
    "long": (
        {"acceptance": '{question: a, expect: b, long_question: " "}'},
        f"{X}acceptance/long_question: has no text in it; give it some, or remove the key",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_a_bad_recipe_says_where_what_and_what_to_do(tmp_path: Path, case: str) -> None:
    changes, message = BAD[case]
    assert errors(write(tmp_path, **changes)) == [message]


@pytest.mark.parametrize("name", REFUSED)
def test_every_refused_flag_is_refused_in_a_container_as_well(tmp_path: Path, name: str) -> None:
    inside = {**CONTAINER, "container": "{image: i, serves: vllm}", **flags(f"{name}: x")}
    found = errors(write(tmp_path, **{**inside, "engine": "container"}))
    assert found == [f"{X}flags/{name}: {'; '.join(REFUSED[name])}"]


@pytest.mark.parametrize("name", sorted(OWN_ENV | TABLE_ENV))
def test_every_variable_of_ours_is_refused(tmp_path: Path, name: str) -> None:
    found = errors(write(tmp_path, **VLLM, env=f"{{{name}: x}}"))
    assert len(found) == 1
    assert found[0].startswith(f"{ENV}{name}: ")


@pytest.mark.parametrize(
    "changes",
    [
        flags("max-num-batched-tokens: 32768, max-num-seqs: 1024"),  # longer than a short context
        flags("quantization-config.moe.activation: mxfp8"),
        flags("speculative-config: '{\"method\":\"mtp\"}', no-enable-flashinfer-autotune: true"),
        {**VLLM, "flags": "{gpu-memory-utilization: 0.88}", "kernels": "int4", "profile": "stock"},
        {**flags("no-enable-flashinfer-autotune: true"),
         "env": "{PYTORCH_ALLOC_CONF: 'expandable_segments:True'}"},
        {**CONTAINER, "flags": "{parallel: 2}", "env": "{X: '{port}'}"},
        {**CONTAINER, "context": None, "weights": None},
        PAGE,
    ],
)  # fmt: skip
def test_what_is_fine_loads(tmp_path: Path, changes: dict[str, str | None]) -> None:
    load_recipe(write(tmp_path, **changes))


def test_a_page_has_no_context_and_asks_nothing(tmp_path: Path) -> None:
    page = load_recipe(write(tmp_path, **PAGE))
    assert (page.context, page.weights, page.acceptance.question) == (0, None, "")
    assert page.container
    assert (page.container.port, page.container.health) == (0, "/health")
    assert not page.runs_vllm
