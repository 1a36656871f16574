"""Engine vllm: what is asked, what is found, how a recipe runs with it, and what is refused."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest

from sparkwright import engine_vllm, serving
from sparkwright.engine_facts import EngineFacts
from sparkwright.engines import Launch
from tests.unit.machine_case import PLACE
from tests.unit.vllm_case import (
    BUILDS,
    FORK,
    NIGHTLY,
    OLD_TRITON,
    PATCHED,
    STOCK,
    STOCK_OLD,
    TRITON,
    UNSUPPORTED,
    VENV,
    installed,
    item,
    recipe,
    seen,
    venv,
    venv_cases,
)

GPT = recipe("gpt-oss-120b")


def launch(facts: EngineFacts | None, **changes: Any) -> Launch:
    """gpt-oss-120b with a build, and with some fields of the recipe changed."""
    wanted = item(dataclasses.replace(GPT, **changes))
    return engine_vllm.launch(wanted, PLACE, installed(facts))


def test_the_venv_of_the_recipes_own_profile_is_asked_about() -> None:
    specs = engine_vllm.probes(item(GPT, "eugr"), PLACE)
    assert [spec["kind"] for spec in specs] == ["path", "path", "run"]
    assert specs[0]["path"] == "/opt/sparkwright/vllm/eugr"
    assert specs[1] == {
        "kind": "path", "path": "/opt/sparkwright/vllm/eugr/.introspect.json", "text": True,
    }  # fmt: skip


def test_the_build_is_the_directory_and_not_the_link() -> None:
    found = installed(STOCK)
    assert (found.build, found.facts) == (f"stock-{VENV}", STOCK)
    assert launch(STOCK).argv[0] == f"/opt/sparkwright/vllm/stock-{VENV}/bin/vllm"
    assert installed(None).build == "absent"


@pytest.mark.parametrize(("name", "profile"), venv_cases())
def test_no_recipe_of_ours_is_refused_by_a_build_it_may_find(name: str, profile: str) -> None:
    wanted = item(recipe(name), profile)
    found = engine_vllm.launch(wanted, PLACE, installed(BUILDS[profile], profile))
    assert found.refused == ()


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "flag": ({"flags": {"mxfp4-layers": "moe"}}, "--mxfp4-layers: unknown to vllm 0.33.0 (stock)"),
    "removed": ({"flags": {"swap-space": 16}}, "--swap-space: unknown to vllm 0.33.0 (stock)"),
    "variable": ({"env": {"VLLM_BASE": "x"}}, "VLLM_BASE: unknown to vllm 0.33.0 (stock)"),
    "parser": (
        {"flags": {"reasoning-parser": "nonexistent"}},
        "--reasoning-parser nonexistent: vllm 0.33.0 (stock) has ",
    ),
    "tool_parser": (
        {"flags": {"tool-call-parser": "qwen4"}},
        "--tool-call-parser qwen4: vllm 0.33.0 (stock) has ",
    ),
    "choice": (
        {"flags": {"moe-backend": "marlyn"}},
        "--moe-backend marlyn: vllm 0.33.0 (stock) takes ",
    ),
    "attention": (
        {"flags": {"attention-backend": "FLASH"}},
        "--attention-backend FLASH: vllm 0.33.0 (stock) takes ",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_the_build_does_not_know_is_refused_before_a_start(case: str) -> None:
    changes, wrong = REFUSED[case]
    found = launch(STOCK, **changes)
    assert len(found.refused) == 1
    assert found.refused[0].startswith(wrong)


@pytest.mark.parametrize(
    ("facts", "kernels", "flags", "env", "line"),
    [
        (STOCK, "mxfp4", {"--moe-backend"}, set(), "Using 'MARLIN' Mxfp4 MoE backend."),
        (STOCK_OLD, "mxfp4", set(), set(), "mxfp4.py:165] Using Marlin backend"),
        (PATCHED, "mxfp4", set(), {"VLLM_MXFP4_BACKEND"}, "[MXFP4] Using backend: marlin (x)"),
        (FORK, "mxfp4", {"--mxfp4-backend", "--mxfp4-layers", "--quantization",
                         "--attention-backend", "--kv-cache-dtype"}, set(),
         "[MXFP4] Using backend: CUTLASS (--mxfp4-backend)"),
        (STOCK_OLD, "nvfp4", {"--moe-backend"}, {"VLLM_NVFP4_GEMM_BACKEND"},
         "Using NvFp4LinearBackend.MARLIN for NVFP4 GEMM"),
        (STOCK, "nvfp4", set(), set(), "Using 'FLASHINFER_CUTLASS' NvFp4 MoE backend out of ['X']"),
        (NIGHTLY, "nvfp4", set(), set(), "Using MarlinNvFp4LinearKernel for NVFP4 GEMM"),
        (STOCK, None, set(), set(), None),
    ],
)  # fmt: skip
def test_the_backend_comes_from_the_table(
    facts: EngineFacts, kernels: str | None, flags: set[str], env: set[str], line: str | None
) -> None:
    bare = {"gpu-memory-utilization": 0.7}
    found = launch(facts, kernels=kernels, flags=bare)
    plain = launch(facts, kernels=None, flags=bare)
    assert set(found.argv) - set(plain.argv) >= flags
    assert {word for word in found.argv if word.startswith("--")} - set(plain.argv) == flags
    assert set(found.env) - set(plain.env) == env
    assert all(re.search(pattern, str(line), re.M) for pattern in found.log_must)
    assert bool(found.log_must) is (line is not None)
    assert not any(re.search(pattern, str(line), re.M) for pattern in found.log_must_not)


def test_the_recipes_own_flag_wins_over_the_tables() -> None:
    argv = launch(STOCK, flags={"moe-backend": "triton"}).argv
    assert argv[argv.index("--moe-backend") + 1] == "triton"
    assert argv.count("--moe-backend") == 1


def test_a_build_that_cannot_serve_the_format_says_so() -> None:
    found = launch(PATCHED, kernels="nvfp4")
    assert any("nvfp4" in what for what in found.refused)


def test_drafts_with_nvfp4_are_refused_where_they_do_not_work() -> None:
    name, profile = UNSUPPORTED
    found = engine_vllm.launch(
        item(recipe(name), profile), PLACE, installed(BUILDS[profile], profile)
    )
    assert found.refused == (
        "speculative-config: vllm 0.17.1 (stock) cannot draft with NVFP4 on one spark (NVIDIA's "
        "guide for Nemotron-3-Super); remove it, or use a newer profile or image",
    )


@pytest.mark.parametrize(
    "line",
    [
        "WARNING envs.py Unknown vLLM environment variable detected: VLLM_MXFP4_BACKEND",
        "(EngineCore pid=7) ERROR core.py:1584] EngineCore failed to start.",
        "ERROR EngineCore encountered a fatal error.",
        "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.",
        "INFO __init__.py:287] Automatically detected platform cpu.",
        "[MXFP4] Auto-selected: CUTLASS_FP4 (vLLM native SM120 FP4 grouped GEMM for SM12x)",
    ],
)
@pytest.mark.parametrize("facts", BUILDS.values(), ids=BUILDS)
def test_lines_that_no_build_may_log(facts: EngineFacts, line: str) -> None:
    assert any(re.search(pattern, line) for pattern in launch(facts).log_must_not)


def test_a_cpu_build_may_run_on_the_cpu() -> None:
    facts = dataclasses.replace(STOCK, version="0.32.0+cpu")
    assert engine_vllm.ON_CPU not in launch(facts, kernels=None).log_must_not


def test_an_image_is_not_ended_by_variables_that_are_not_ours() -> None:
    """eugr's sets VLLM_BASE_DIR, which vLLM does not know."""
    inside = item(recipe("gpt-oss-120b-fork"))
    backend, wrong = engine_vllm.choose(inside, STOCK)
    assert wrong == []
    assert engine_vllm.STRICT not in backend.flags
    assert engine_vllm.UNKNOWN not in backend.log_must_not
    assert engine_vllm.STRICT in engine_vllm.choose(item(GPT), STOCK)[0].flags


@pytest.mark.parametrize("known", [True, False])
def test_the_strict_flag_only_where_the_build_has_it(known: bool) -> None:
    flags = {name: f for name, f in STOCK.flags.items() if known or name != engine_vllm.STRICT}
    found = launch(dataclasses.replace(STOCK, flags=flags))
    assert (f"--{engine_vllm.STRICT}" in found.argv) is known
    assert found.refused == ()


@pytest.mark.parametrize(
    ("triton", "variable"),
    [(TRITON, None), (OLD_TRITON, "/usr/local/cuda/bin/ptxas"), ({"rc": 2, "out": ""}, None),
     ({"error": "OSError"}, None)],
)  # fmt: skip
def test_an_old_triton_gets_the_toolkits_ptxas(
    triton: dict[str, Any], variable: str | None
) -> None:
    found = engine_vllm.installed(item(GPT), PLACE, venv(STOCK_OLD, "stock", triton))
    env = engine_vllm.launch(item(GPT), PLACE, found).env
    assert env.get("TRITON_PTXAS_PATH") == variable


def test_a_venv_that_says_nothing_of_itself_is_not_started() -> None:
    states = venv(STOCK)
    states[1] = {"type": "missing"}
    found = engine_vllm.launch(item(GPT), PLACE, engine_vllm.installed(item(GPT), PLACE, states))
    assert found.refused == (
        f"/opt/sparkwright/vllm/stock-{VENV}/.introspect.json is missing: "
        "what this build knows cannot be checked",
    )


def test_before_the_venv_is_there_nothing_is_refused() -> None:
    """A first plan looks at a machine on which tasks/vllm.py has not run yet."""
    found = launch(None)
    assert found.refused == ()
    assert found.argv[0] == "/opt/sparkwright/vllm/absent/bin/vllm"


def test_asking_names_what_answers_and_expects_the_backends_lines() -> None:
    spec = serving.question(item(GPT), PLACE, seen(*venv(STOCK)))
    assert spec["serves"] == "vllm"
    assert spec["system_expect"] == "KESTREL"
    assert spec["log_must"] == list(launch(STOCK).log_must)
    assert engine_vllm.BROKEN[0] in spec["log_must_not"]
    assert spec["notes"] == []
    older = serving.question(item(GPT), PLACE, seen(*venv(STOCK_OLD)))
    assert "vllm#37030" in older["notes"][0]
    assert spec["asked"] != older["asked"]


def test_a_venv_that_was_made_again_restarts_its_service() -> None:
    """It was damaged: what the process has loaded of it nobody knows."""
    wanted = item(GPT)
    texts = [f"made:{when}-7\n{TRITON['out']}" for when in (100, 200)]
    found = [seen(*venv(STOCK, "stock", {**TRITON, "out": text})) for text in texts]
    one, two = (serving.service_of(wanted, [wanted], PLACE, answers) for answers in found)
    assert one.argv == two.argv
    assert one.env == two.env
    assert one.digest != two.digest
