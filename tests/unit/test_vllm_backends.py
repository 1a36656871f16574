"""Which kernels each build of vLLM gets per number format, and the lines that prove them.

The lines are recorded from releases on other GPUs or from their sources, none on a GB10.
"""

from __future__ import annotations

import dataclasses
import re

import pytest

from sparkwright.engine_facts import EngineFacts, Flag, refused
from sparkwright.errors import SparkwrightError
from sparkwright.vllm_backends import KERNELS, Backend, choose, release, rows
from sparkwright.vllm_releases import facts_of, releases


def nightly(version: str, like: str) -> EngineFacts:
    """eugr's nightly: upstream's main of that time, with its own version."""
    return dataclasses.replace(facts_of(like), build="E", version=version)


def patched(version: str) -> EngineFacts:
    """A release that patch set T was applied to; its version stays."""
    stock = facts_of(version)
    values = ("auto", "marlin", "cutlass_fp4", "triton")
    return dataclasses.replace(stock, build="T", env={**stock.env, "VLLM_MXFP4_BACKEND": values})


def fork() -> EngineFacts:
    """christopherowen/vllm at 045293d8."""
    stock = facts_of("0.14.1")
    own = {"mxfp4-backend": Flag(None, True), "mxfp4-layers": Flag(None, True)}
    return dataclasses.replace(
        stock,
        build="C",
        version="0.1.dev1+g045293d8",
        env={**stock.env, "VLLM_MXFP4_BACKEND": None},
        flags={**stock.flags, **own},
    )


E = nightly("0.23.1rc1.dev701+g00eb7cefa.d20260701", "0.24.0")
MARLIN = {"moe-backend": "marlin"}
CHOSEN: list[tuple[str, EngineFacts, dict[str, str], dict[str, str]]] = [
    ("mxfp4", facts_of("0.17.1"), {}, {}),
    ("mxfp4", facts_of("0.18.1"), {}, {}),
    ("mxfp4", facts_of("0.19.0"), MARLIN, {}),
    ("mxfp4", facts_of("0.33.0"), MARLIN, {}),
    ("mxfp4", E, MARLIN, {}),
    ("mxfp4", patched("0.17.1"), {}, {"VLLM_MXFP4_BACKEND": "marlin"}),
    ("mxfp4", fork(), {
        "quantization": "mxfp4", "mxfp4-backend": "CUTLASS", "mxfp4-layers": "moe,qkv,o,lm_head",
        "attention-backend": "FLASHINFER", "kv-cache-dtype": "fp8"}, {}),
    ("nvfp4", facts_of("0.17.1"), MARLIN, {"VLLM_NVFP4_GEMM_BACKEND": "marlin"}),
    ("nvfp4", facts_of("0.21.0"), MARLIN, {"VLLM_NVFP4_GEMM_BACKEND": "marlin"}),
    ("nvfp4", facts_of("0.22.1"), {**MARLIN, "linear-backend": "marlin"}, {}),
    ("nvfp4", facts_of("0.23.0"), {**MARLIN, "linear-backend": "marlin"}, {}),
    ("nvfp4", facts_of("0.24.0"), {}, {}),
    ("nvfp4", facts_of("0.33.0"), {}, {}),
    ("int4", facts_of("0.33.0"), {}, {}),
    ("fp8", facts_of("0.17.1"), {}, {}),
]  # fmt: skip


@pytest.mark.parametrize(("kernels", "facts", "flags", "env"), CHOSEN)
def test_the_table(
    kernels: str, facts: EngineFacts, flags: dict[str, str], env: dict[str, str]
) -> None:
    found = choose(kernels, facts)
    assert (found.flags, found.env) == (flags, env)


EVERY = [
    *(facts_of(version) for version in releases()),
    *(nightly(f"{version}rc1.dev1+gabcdef0.d20260701", version) for version in releases()),
    patched("0.17.0"),
    patched("0.17.1"),
    fork(),
]


@pytest.mark.parametrize("facts", EVERY, ids=lambda facts: facts.title)
@pytest.mark.parametrize("kernels", [*KERNELS, None])
def test_no_build_gets_what_it_does_not_know(kernels: str | None, facts: EngineFacts) -> None:
    """Old variables never appear where they do nothing: each answer passes the build's check."""
    if (
        kernels
        and (release(facts.version) < (0, 17) or facts.build in "TC")
        and not (kernels == "mxfp4" and facts.build in "TC")
    ):
        with pytest.raises(SparkwrightError, match="; use "):
            choose(kernels, facts)
        return
    found = choose(kernels, facts)
    words = [text for name, value in found.flags.items() for text in (f"--{name}", str(value))]
    assert refused(words, found.env, facts) == []
    assert not set(found.env) & set(facts.deprecated)
    for pattern in (*found.log_must, *found.log_must_not):
        re.compile(pattern)


def test_exactly_one_row_fits() -> None:
    assert {row.kernels for row in rows()} == set(KERNELS)
    for kernels in KERNELS:
        for build in ("stock", "E", "T", "C"):
            for number in [(0, 16), (0, 17), (0, 18), *((0, minor) for minor in range(19, 40))]:
                fitting = [
                    row
                    for row in rows()
                    if row.kernels == kernels
                    and build in row.builds.split()
                    and row.since <= number < row.before
                ]
                known = build in ("stock", "E") and number >= (0, 17)
                assert len(fitting) == 1 if known else len(fitting) <= 1, (kernels, build, number)


REFUSED: list[tuple[str, EngineFacts, str]] = [
    ("nvfp4", fork(), "fork C (vllm 0.1.dev1+g045293d8 (C)) is made for mxfp4 alone; use profile"),
    ("nvfp4", patched("0.17.1"), "patch set T (vllm 0.17.1 (T)) is made for mxfp4 alone"),
    ("mxfp4", facts_of("0.16.0"), "vllm 0.16.0 (stock) is older than 0.17, the first that can be"),
    ("int8", facts_of("0.33.0"), "no such number format; known: mxfp4, nvfp4, int4, fp8"),
    ("nvfp4", dataclasses.replace(facts_of("0.24.0"), version="0.17.1"),
     "vllm 0.17.1 (stock) is not what its version says: VLLM_NVFP4_GEMM_BACKEND: unknown"),
]  # fmt: skip


@pytest.mark.parametrize(("kernels", "facts", "phrase"), REFUSED)
def test_a_build_that_cannot_serve_it_is_refused(
    kernels: str, facts: EngineFacts, phrase: str
) -> None:
    with pytest.raises(SparkwrightError) as error:
        choose(kernels, facts)
    assert str(error.value).startswith(f"kernels: {kernels}: {phrase}")


@pytest.mark.parametrize("kernels", ["mxfp4", "nvfp4", "int4"])
@pytest.mark.parametrize(
    ("version", "doubtful"), [("0.17.1", True), ("0.22.1", True), ("0.23.0", False)]
)
def test_marlin_before_its_own_machine_code_is_told(
    kernels: str, version: str, doubtful: bool
) -> None:
    notes = choose(kernels, facts_of(version)).notes
    assert any("vllm#37030" in note for note in notes) is doubtful


def test_patch_set_t_mends_marlin_itself() -> None:
    assert choose("mxfp4", patched("0.17.1")).notes == ()


@pytest.mark.parametrize(
    ("version", "number"),
    [
        ("0.33.0", (0, 33)),
        ("0.17.1+cu130", (0, 17)),
        ("0.23.1rc1.dev701+g00eb7cefa.d20260701", (0, 23)),
        ("1.0", (1, 0)),
        ("dev", (0, 0)),
    ],
)
def test_release(version: str, number: tuple[int, int]) -> None:
    assert release(version) == number


# --- the journal ---


def proves(found: Backend, line: str) -> bool:
    """Whether ask.py would be content with a journal of that line."""
    return all(re.search(p, line, re.M) for p in found.log_must) and not any(
        re.search(p, line, re.M) for p in found.log_must_not
    )


OF = "out of potential backends: ['FLASHINFER_TRTLLM', 'MARLIN']."
# (number format, build, a line of that release, whether it proves the wanted backend)
LINES: list[tuple[str, EngineFacts, str, bool]] = [
    ("mxfp4", facts_of("0.17.1"), "INFO [mxfp4.py:165] Using Marlin backend", True),
    ("mxfp4", facts_of("0.17.1"), "INFO Using 'MARLIN' Mxfp4 MoE backend.", False),
    ("mxfp4", facts_of("0.33.0"), "INFO Using 'MARLIN' Mxfp4 MoE backend.", True),
    ("mxfp4", facts_of("0.33.0"), "INFO Using Marlin backend", False),
    ("mxfp4", facts_of("0.33.0"), "INFO Using 'TRITON' Mxfp4 MoE backend.", False),
    ("mxfp4", facts_of("0.33.0"), "INFO Using 'MARLIN_X' Mxfp4 MoE backend.", False),
    ("mxfp4", E, "INFO Using 'MARLIN' Mxfp4 MoE backend.", True),
    ("mxfp4", patched("0.17.1"),
     "[MXFP4] Using backend: marlin (VLLM_MXFP4_BACKEND=marlin)", True),
    ("mxfp4", patched("0.17.1"),
     "[MXFP4] Auto-selected: CUTLASS_FP4 (vLLM native SM120 FP4 grouped GEMM for SM12x)", False),
    ("mxfp4", fork(), "[MXFP4] Using backend: CUTLASS (--mxfp4-backend)", True),
    ("mxfp4", fork(), "[MXFP4] Auto-selected: cutlass (FlashInfer CUTLASS FP8xFP4)", False),
    ("nvfp4", facts_of("0.17.1"), f"Using 'MARLIN' NvFp4 MoE backend {OF}", True),
    ("nvfp4", facts_of("0.17.1"), f"Using 'FLASHINFER_CUTLASS' NvFp4 MoE backend {OF}", False),
    ("nvfp4", facts_of("0.17.1"), "Using NvFp4LinearBackend.MARLIN for NVFP4 GEMM", True),
    ("nvfp4", facts_of("0.17.1"),
     f"Using 'MARLIN' NvFp4 MoE backend {OF}\n"
     "Using NvFp4LinearBackend.FLASHINFER_CUTLASS for NVFP4 GEMM", False),
    ("nvfp4", facts_of("0.21.0"), "Using MarlinNvFp4LinearKernel for NVFP4 GEMM", True),
    ("nvfp4", facts_of("0.22.1"),
     "Using FlashInferCutlassNvFp4LinearKernel for NVFP4 GEMM", False),
    ("nvfp4", facts_of("0.33.0"), f"Using 'FLASHINFER_CUTLASS' NvFp4 MoE backend {OF}", True),
    ("nvfp4", facts_of("0.33.0"), "Using MarlinNvFp4LinearKernel for NVFP4 GEMM", True),
    ("nvfp4", facts_of("0.33.0"), f"Using 'EMULATION' NvFp4 MoE backend {OF}", False),
    ("nvfp4", facts_of("0.33.0"), "Using EmulationNvFp4LinearKernel for NVFP4 GEMM", False),
    ("nvfp4", facts_of("0.33.0"), "nothing of it", False),
    ("fp8", facts_of("0.33.0"), "Your GPU does not have native support for FP8 computation", False),
    ("fp8", facts_of("0.33.0"), "Using TRITON Fp8 MoE backend out of", True),
    ("int4", facts_of("0.22.1"), "FutureWarning: VLLM_USE_FBGEMM is deprecated and will be", False),
]  # fmt: skip


@pytest.mark.parametrize(("kernels", "facts", "line", "good"), LINES)
def test_recorded_lines(kernels: str, facts: EngineFacts, line: str, good: bool) -> None:
    assert proves(choose(kernels, facts), line) is good


def test_nothing_chosen_expects_nothing() -> None:
    found = choose(None, facts_of("0.33.0"))
    assert (found.flags, found.env, found.log_must, found.notes) == ({}, {}, (), ())
    assert proves(found, "anything")
