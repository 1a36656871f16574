"""Traps of building llama.cpp for GB10, as far as a script or Dockerfile shows them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from sparkwright.lint.context import Context
from sparkwright.lint.findings import Found, Verdict
from sparkwright.lint.model import Command, Document, Kind, Launch, Word
from sparkwright.lint.registry import file_rule, launch_rule

_ON: Final = re.compile(r"-DGGML_CUDA(:BOOL)?=(ON|1|TRUE|YES)", re.I)
_ARCH: Final = re.compile(r"-DCMAKE_CUDA_ARCHITECTURES(?::\w+)?=(.*)", re.S)
_DRIVERS: Final = re.compile(
    r"cuda|cuda-drivers(-\d+)?|nvidia-open(-\d+)?|nvidia-driver-\d+(-open)?"
)


def _cmake(doc: Document) -> Iterator[Command]:
    """Configure steps of a CUDA build of ggml."""
    for command in doc.commands:
        if command.name == "cmake" and any(_ON.match(w.shape) for w in command.argv):
            yield command


def _word(command: Command, pattern: re.Pattern[str]) -> tuple[Word, str] | None:
    for word in command.argv:
        match = pattern.match(word.shape)
        if match:
            return word, match[1]
    return None


@file_rule(Verdict.WARN, Verdict.BLOCK)
def cuda_architecture(doc: Document, ctx: Context) -> Iterator[Found]:
    """A CUDA build of llama.cpp without the architecture of GB10.

    Without one the list has eight others in it, or it is `native`, which is read from the GPU: in
    a container build or before the driver is loaded nvcc is asked for an architecture named after
    an error message. GB10 is 121; llama.cpp makes 121a of it, which MXFP4 needs.

    Bad:
        cmake -B build -DGGML_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES=native

    Good:
        cmake -B build -DGGML_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES=121

    Source: ggml-org/llama.cpp#18430; llama.cpp ggml/src/ggml-cuda/CMakeLists.txt
    """
    for command in _cmake(doc):
        found = _word(command, _ARCH)
        fix = "write -DCMAKE_CUDA_ARCHITECTURES=121"
        if found is None:
            yield Found(
                command.at, "no -DCMAKE_CUDA_ARCHITECTURES: built for other GPUs, or for native",
                f"add {fix.removeprefix('write ')}",
            )  # fmt: skip
        elif "native" in found[1]:
            blind = doc.kind is Kind.DOCKERFILE
            yield Found(
                found[0].at, "native needs to see the GPU" + (", and no build step does" * blind),
                fix, sees=found[1], verdict=Verdict.BLOCK if blind else Verdict.WARN,
            )  # fmt: skip
        elif found[0].text is not None and "121" not in found[1] and "120" not in found[1]:
            yield Found(
                found[0].at, f"{found[1]} is not GB10's architecture", fix, sees=found[1],
                verdict=Verdict.BLOCK,
            )  # fmt: skip


@file_rule(Verdict.WARN)
def compiler_by_path(doc: Document, ctx: Context) -> Iterator[Found]:
    """A CUDA build through SSH that leaves the compiler to PATH.

    `ssh host 'cmake …'` is no login shell: nvcc is not in its PATH on DGX OS. cmake then writes
    NOTFOUND into its cache, and the same build directory fails after PATH is right.

    Bad:
        ssh spark 'cmake -B build -DGGML_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES=121'

    Good:
        ssh spark 'cmake -B build -DGGML_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES=121 \\
            -DCMAKE_CUDA_COMPILER=/usr/local/cuda/bin/nvcc'

    Source: ggml-org/llama.cpp#13527, #14558
    """
    for command in doc.commands:
        text = " ".join(word.shape for word in command.argv[1:])
        if command.name != "ssh" or "GGML_CUDA=ON" not in text or "cmake" not in text:
            continue
        if not re.search(r"CMAKE_CUDA_COMPILER|CUDACXX|PATH=", text):
            yield Found(
                command.at, "nvcc is not in the PATH of a command run by ssh",
                "add -DCMAKE_CUDA_COMPILER=/usr/local/cuda/bin/nvcc", sees="NOTFOUND",
            )  # fmt: skip


@file_rule(Verdict.WARN, Verdict.BLOCK)
def wrong_cuda_package(doc: Document, ctx: Context) -> Iterator[Found]:
    """Packages that bring an old nvcc or another driver.

    Ubuntu's nvidia-cuda-toolkit is CUDA 12.0: its /usr/bin/nvcc comes first in PATH and knows no
    sm_121. `cuda`, `cuda-drivers` and `nvidia-open` replace the driver that belongs to the Spark's
    firmware.

    Bad:
        apt-get install -y nvidia-cuda-toolkit

    Good:
        apt-get install -y cuda-nvcc-13-0 cuda-cudart-dev-13-0 libcublas-dev-13-0

    Source: ggml-org/llama.cpp#23224; NVIDIA's documentation of DGX OS updates
    """
    for command in doc.commands:
        if command.name not in ("apt", "apt-get", "aptitude") or "install" not in command.texts():
            continue
        for word in command.argv[1:]:
            name = (word.text or "").split("=")[0]
            if name == "nvidia-cuda-toolkit":
                yield Found(
                    word.at, "it is CUDA 12.0, shadows CUDA 13 and knows no sm_121",
                    "install cuda-nvcc-13-0 cuda-cudart-dev-13-0 libcublas-dev-13-0", sees=name,
                )  # fmt: skip
            elif _DRIVERS.fullmatch(name) and doc.kind is not Kind.DOCKERFILE:
                yield Found(
                    word.at, f"{name} replaces the driver that belongs to the firmware",
                    "leave the driver alone; for nvcc install cuda-nvcc-13-0", sees=name,
                    verdict=Verdict.BLOCK,
                )  # fmt: skip


@launch_rule(Verdict.BLOCK)
def stub_library(launch: Launch, doc: Document, ctx: Context) -> Iterator[Found]:
    """The linker's stub of libcuda in the search path of a running engine.

    The stub is for linking on machines without a driver. At run time it is found first, and no
    CUDA call works.

    Bad:
        LD_LIBRARY_PATH=/usr/local/cuda/lib64/stubs /opt/llama/llama-server -m /srv/m.gguf

    Good:
        /opt/llama/llama-server -m /srv/m.gguf

    Source: ggml-org/llama.cpp#18022
    """
    item = launch.get("LD_LIBRARY_PATH")
    if item is not None and re.search(r"/stubs(/|:|$)", item.value or ""):
        kept = ":".join(p for p in (item.value or "").split(":") if "/stubs" not in p)
        yield Found(
            item.at, "the stub of libcuda is found before the driver's",
            f"write LD_LIBRARY_PATH={kept}" if kept else "remove LD_LIBRARY_PATH",
            sees=item.value or "",
        )  # fmt: skip


@file_rule(Verdict.WARN)
def mkdir_again(doc: Document, ctx: Context) -> Iterator[Found]:
    """`mkdir build` fails at the second run.

    Bad:
        mkdir build && cd build && cmake ..

    Good:
        cmake -B build

    Source: NVIDIA/dgx-spark-playbooks, llama.cpp; odysseus-dev/odysseus#3328
    """
    built = any(command.name == "cmake" for command in doc.commands)
    for command in doc.commands if built and doc.kind is Kind.SCRIPT else ():
        texts = command.texts()
        again = any(re.match(r"-\w*p|--parents", text) for text in texts[1:])
        if command.name == "mkdir" and not again and re.search(r"(^|/)build$", texts[-1]):
            yield Found(
                command.at, "the second run stops here: File exists",
                f"write mkdir -p {texts[-1]}, or cmake -B {texts[-1]}", sees=" ".join(texts),
            )  # fmt: skip
