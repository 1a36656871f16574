"""Which kernels a vLLM on GB10 (SM 12.1) should use, per number format and per build. Pure.

One table for what public advice mixes up: a variable that chooses a kernel in one build is unknown
to the next, and the same choice is logged in other words. Read in the sources of the releases
0.13.0 to 0.33.0, of fork C (christopherowen/vllm) and of patch set T (namake-taro/vllm-custom).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from sparkwright.engine_facts import EngineFacts, refused
from sparkwright.errors import SparkwrightError

Value = str | int | float | bool


@dataclass(frozen=True)
class Backend:
    """What a build needs for a number format.

    + flags: of `vllm serve`, without dashes
    + log_must, log_must_not: regular expressions over the journal since the start, in the words of
      that release
    + notes: what a user should know who serves with it
    """

    flags: Mapping[str, Value]
    env: Mapping[str, str]
    log_must: tuple[str, ...]
    log_must_not: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Row:
    """A line of the table: versions from `since`, below `before`, of these builds."""

    kernels: str
    builds: str
    since: tuple[int, int]
    before: tuple[int, int]
    flags: Mapping[str, Value] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    must: tuple[str, ...] = ()
    must_not: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


FIRST, NEWER = (0, 17), (99, 0)
# Patch set T chose by itself, which nothing of ours lets it do;
# and the FutureWarning of deprecated_env (0.22.1, 0.23.0).
NEVER = (r"Auto-selected: CUTLASS_FP4", r"FutureWarning: VLLM_\w+ is deprecated")

MARLIN_MXFP4 = r"Using 'MARLIN' Mxfp4 MoE backend"
OTHER_MXFP4 = r"Using '(?!MARLIN')\w+' Mxfp4 MoE backend"
# One of both: a model without experts has only linear layers, another only experts in NVFP4.
OLD_NVFP4 = r"Using ('MARLIN' NvFp4 MoE backend|NvFp4LinearBackend\.MARLIN for NVFP4 GEMM)"
MARLIN_NVFP4 = r"Using ('MARLIN' NvFp4 MoE backend|MarlinNvFp4LinearKernel for NVFP4 GEMM)"
EITHER_NVFP4 = (
    r"Using ('MARLIN' NvFp4 MoE backend|(NvFp4LinearBackend\.MARLIN|MarlinNvFp4LinearKernel) for)"
)
OTHER_NVFP4 = (
    r"Using '(?!MARLIN')\w+' NvFp4 MoE backend",
    r"Using (?!NvFp4LinearBackend\.MARLIN |MarlinNvFp4LinearKernel )\S+ for NVFP4 GEMM",
)
ANY_NVFP4 = r"Using ('\w+' NvFp4 MoE backend|\w*NvFp4\w*Kernel for NVFP4 GEMM)"
EMULATED = (
    r"Using 'EMULATION' NvFp4 MoE backend",
    r"Using EmulationNvFp4LinearKernel for NVFP4 GEMM",
)
# marlin_utils_fp8.py, on a GPU whose FP8 units are not used.
NO_FP8 = r"does not have native support for FP8"

# MARLIN_MOE_ARCHS was "8.0+PTX" until 0.22.1 (CMakeLists.txt); vllm#40923, vllm#37030. Not refused:
# reports differ, and a wrong answer fails the acceptance, which asks for a known one.
DOUBTFUL = (
    "Marlin's kernels for experts have no machine code for SM 12.x before vLLM 0.23: answers may "
    "be wrong or empty on one spark (vllm#40923, vllm#37030); use vLLM 0.23 or newer",
)
MOE = {"moe-backend": "marlin"}
BOTH = {"moe-backend": "marlin", "linear-backend": "marlin"}
FORK = {
    "quantization": "mxfp4",
    "mxfp4-backend": "CUTLASS",
    "mxfp4-layers": "moe,qkv,o,lm_head",
    "attention-backend": "FLASHINFER",
    "kv-cache-dtype": "fp8",
}
GEMM = {"VLLM_NVFP4_GEMM_BACKEND": "marlin"}

KERNELS = ("mxfp4", "nvfp4", "int4", "fp8")


def rows() -> tuple[Row, ...]:
    """The table."""
    return (
        # 0.17 and 0.18 have no setting that reaches gpt-oss: on SM 12.1 they fall to Marlin.
        Row("mxfp4", "stock", FIRST, (0, 19), must=("Using Marlin backend",), notes=DOUBTFUL),
        Row("mxfp4", "stock", (0, 19), (0, 23), MOE, {}, (MARLIN_MXFP4,), (OTHER_MXFP4,), DOUBTFUL),
        Row("mxfp4", "stock E", (0, 23), NEWER, MOE, {}, (MARLIN_MXFP4,), (OTHER_MXFP4,)),
        # A nightly of that time may have either wording.
        Row("mxfp4", "E", FIRST, (0, 23), MOE, {}, (f"Using Marlin backend|{MARLIN_MXFP4}",),
            (OTHER_MXFP4,), DOUBTFUL),
        # T mends Marlin itself (fused_marlin_moe.py), and its README wants this for right answers.
        Row("mxfp4", "T", FIRST, (0, 18), {}, {"VLLM_MXFP4_BACKEND": "marlin"},
            (r"\[MXFP4\] Using backend: marlin",)),
        Row("mxfp4", "C", (0, 0), NEWER, FORK, {}, (r"\[MXFP4\] Using backend: CUTLASS",)),
        # Left to choose, 0.17 takes FlashInfer's CUTLASS on SM 12.1, whose kernels its wheel lacks.
        Row("nvfp4", "stock", FIRST, (0, 20), MOE, GEMM, (OLD_NVFP4,), OTHER_NVFP4, DOUBTFUL),
        Row("nvfp4", "stock", (0, 20), (0, 22), MOE, GEMM, (MARLIN_NVFP4,), OTHER_NVFP4, DOUBTFUL),
        Row("nvfp4", "E", FIRST, (0, 22), MOE, GEMM, (EITHER_NVFP4,), OTHER_NVFP4, DOUBTFUL),
        Row("nvfp4", "stock E", (0, 22), (0, 23), BOTH, {}, (MARLIN_NVFP4,), OTHER_NVFP4, DOUBTFUL),
        Row("nvfp4", "stock E", (0, 23), (0, 24), BOTH, {}, (MARLIN_NVFP4,), OTHER_NVFP4),
        # vLLM's own recipe for Nemotron-3-Super on GB10 sets no backend (image v0.28.0).
        Row("nvfp4", "stock E", (0, 24), NEWER, must=(ANY_NVFP4,), must_not=EMULATED),
        Row("int4", "stock E", FIRST, (0, 23), notes=DOUBTFUL),
        Row("int4", "stock E", (0, 23), NEWER),
        Row("fp8", "stock E", FIRST, NEWER, must_not=(NO_FP8,)),
    )  # fmt: skip


def release(version: str) -> tuple[int, int]:
    """The first two numbers of a version; (0, 0) when it has none, as a fork's own build.

    A nightly counts as the release before it: 0.23.1rc1.dev701 as 0.23.
    """
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def choose(kernels: str | None, facts: EngineFacts) -> Backend:
    """The backend for a number format in an installed build.

    + kernels: mxfp4, nvfp4, int4 or fp8; None: nothing is chosen, and nothing is expected

    Raises SparkwrightError when this build cannot serve that format right, or does not know what
    the table wants of it.
    """
    if kernels is None:
        return Backend({}, {}, (), NEVER, ())
    number = release(facts.version)
    fitting = [
        row
        for row in rows()
        if row.kernels == kernels
        and facts.build in row.builds.split()
        and row.since <= number < row.before
    ]
    if not fitting:
        raise SparkwrightError(f"kernels: {kernels}: {_why_not(kernels, facts)}")
    row = fitting[0]
    words = [text for name, value in row.flags.items() for text in (f"--{name}", str(value))]
    if wrong := refused(words, row.env, facts):
        raise SparkwrightError(
            f"kernels: {kernels}: {facts.title} is not what its version says: {'; '.join(wrong)}; "
            "use another profile or image"
        )
    return Backend(row.flags, row.env, row.must, (*NEVER, *row.must_not), row.notes)


def _why_not(kernels: str, facts: EngineFacts) -> str:
    if kernels not in KERNELS:
        return f"no such number format; known: {', '.join(KERNELS)}"
    if facts.build in ("T", "C"):
        name = "patch set T" if facts.build == "T" else "fork C"
        return f"{name} ({facts.title}) is made for mxfp4 alone; use profile eugr or stock"
    return f"{facts.title} is older than 0.17, the first that can be checked; use a newer one"
