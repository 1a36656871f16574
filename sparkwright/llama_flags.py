"""llama.cpp's source, cmake arguments and the nvcc they name. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from sparkwright.resources import Spec, State


@dataclass(frozen=True)
class Source:
    """The pinned source archive.

    + commit: 40 hex digits
    + build_number: NNNN of upstream's tag bNNNN; an archive has no history to count
    """

    url: str
    sha256: str
    size: int | None
    commit: str
    build_number: int


@dataclass(frozen=True)
class Wanted:
    """What the build depends on, from the fleet's data.

    + backend: "cuda" or "cpu"
    + extra: further cmake flags
    + rpc: with llama.cpp's RPC, for a model on several machines
    """

    source: Source
    prefix: str
    work_dir: str
    user: str
    backend: str
    architectures: str
    extra: tuple[str, ...]
    env: Mapping[str, str]
    jobs: int
    keep: int
    rpc: bool = False

    @property
    def targets(self) -> tuple[str, ...]:
        """What cmake builds."""
        return ("llama-server", "llama-bench", *(("ggml-rpc-server",) if self.rpc else ()))


def cmake_flags(wanted: Wanted, nvcc: str) -> list[str]:
    """cmake's arguments.

    + nvcc: absolute path; PATH order is never trusted (llama.cpp#23224: Ubuntu's nvcc 12.0 wins)
    """
    cuda = [
        "-DGGML_CUDA=ON",
        f"-DCMAKE_CUDA_ARCHITECTURES={wanted.architectures}",
        f"-DCMAKE_CUDA_COMPILER={nvcc}",
    ]
    return [
        "-G",
        "Ninja",
        "-DCMAKE_BUILD_TYPE=Release",
        *(cuda if wanted.backend == "cuda" else ["-DGGML_CUDA=OFF"]),
        # The build tree's rpath is absolute otherwise; with $ORIGIN a copy of bin/ runs anywhere.
        "-DCMAKE_BUILD_RPATH_USE_ORIGIN=ON",
        # Both would fetch web assets during the build (llama.cpp#23156).
        "-DLLAMA_BUILD_UI=OFF",
        "-DLLAMA_USE_PREBUILT_UI=OFF",
        "-DLLAMA_BUILD_TESTS=OFF",
        "-DLLAMA_BUILD_EXAMPLES=OFF",
        f"-DLLAMA_BUILD_NUMBER={wanted.source.build_number}",
        f"-DLLAMA_BUILD_COMMIT={wanted.source.commit}",
        # RDMA joins by itself where libibverbs is (ggml/src/ggml-rpc/CMakeLists.txt).
        *(["-DGGML_RPC=ON"] if wanted.rpc else []),
        *wanted.extra,
    ]


def nvcc_probe() -> Spec:
    """Every nvcc that CUDA could be in, newest version first, with its version text.

    DGX OS ships the toolkit without putting nvcc on PATH.
    """
    places = (
        '"${CUDA_HOME:-/nonexistent}" /usr/local/cuda $(ls -d /usr/local/cuda-1[3-9].* | sort -rV)'
    )
    return {
        "kind": "run",
        "argv": [
            "sh",
            "-c",
            (
                f'for d in {places}; do [ -x "$d/bin/nvcc" ] || continue; '
                'v=$("$d/bin/nvcc" --version | sed -n "s/.*release [0-9.]*, V//p"); '
                'echo "$d/bin/nvcc $v"; done'
            ),
        ],
    }


def newest_nvcc(state: State) -> tuple[str, str]:
    """(path, version) of the newest nvcc in a machine's answer; empty strings when there is none.

    The version is compared by number: 13.10 is newer than 13.9.
    """
    rows = [line.split() for line in state.get("out", "").splitlines()]
    found = [(row[0], row[1]) for row in rows if len(row) == 2]
    key = lambda item: [int(n) for n in re.findall(r"\d+", item[1])]  # noqa: E731 - one use
    return max(found, key=key, default=("", ""))
