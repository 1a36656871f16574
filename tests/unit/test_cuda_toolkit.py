"""The CUDA proof's own pieces: how a toolkit is completed, and what counts as proof."""

from __future__ import annotations

import re
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cuda import __main__ as program
from tests.cuda import proof, toolkit
from tests.lab import LabError

WHEELS = ["nvidia-cublas", "nvidia-cuda-cuobjdump"]
NVCC = "/usr/local/cuda-13.0/bin/nvcc"


def fill(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"host's {name}")
    return folder


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A toolkit as PyPI's wheels leave it: lib64 is a link, cuBLAS and the stub are absent."""
    folder = fill(tmp_path / "host", "bin/nvcc", "lib/libcudart.so.13", "include/cuda.h")
    (folder / "lib64").symlink_to("lib")
    return folder


def test_each_wheel_is_pinned_for_both_architectures() -> None:
    lines = toolkit.wanted_wheels(toolkit.WHEELS.read_text(), WHEELS)
    assert [line.split("==")[0] for line in lines] == WHEELS == list(toolkit.PROOF)
    for line in lines:
        assert len(set(re.findall(r"--hash=sha256:([0-9a-f]{64})", line))) == 2


def test_only_the_wheels_that_are_lacking_are_wanted(bare: Path) -> None:
    assert toolkit.lacking(bare) == WHEELS
    fill(bare, "include/cublas_v2.h", "lib64/libcublas.so", "lib64/libcublasLt.so")
    assert toolkit.lacking(bare) == WHEELS[1:]
    text = toolkit.WHEELS.read_text()
    assert [line.split("==")[0] for line in toolkit.wanted_wheels(text, WHEELS[1:])] == WHEELS[1:]


@pytest.mark.parametrize(
    ("member", "place"),
    [
        ("nvidia/cu13/lib/libcublas.so.13", "lib64/libcublas.so.13"),
        ("nvidia/cu13/include/cublas.h", "include/cublas.h"),
        ("nvidia/cu13/bin/cuobjdump", "bin/cuobjdump"),
        ("nvidia/cu13/include/", None),
        ("nvidia_cublas-13.0.2.14.dist-info/RECORD", None),
    ],
)
def test_where_a_wheels_file_belongs(member: str, place: str | None) -> None:
    assert toolkit.target(member) == place


def test_the_hosts_files_are_not_written_through_a_hard_link(bare: Path, tmp_path: Path) -> None:
    copy, wheel = tmp_path / "copy", tmp_path / "a.whl"
    shutil.copytree(bare, copy, symlinks=True, copy_function=toolkit._link_or_copy)
    assert (copy / "bin/nvcc").samefile(bare / "bin/nvcc")
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in ("include/cuda.h", "lib/libcublas.so.13", "bin/cuobjdump"):
            archive.writestr(f"nvidia/cu13/{name}", "wheel's")
    toolkit._unpack(wheel, copy)
    assert (copy / "include/cuda.h").read_text() == "wheel's"
    assert (copy / "lib/libcublas.so.13").read_text() == "wheel's"
    assert (copy / "bin/cuobjdump").stat().st_mode & 0o777 == 0o755
    assert (bare / "include/cuda.h").read_text() == "host's include/cuda.h"
    assert sorted(path.name for path in bare.rglob("*") if path.is_file()) == [
        "cuda.h", "libcudart.so.13", "nvcc",
    ]  # fmt: skip


def test_a_link_out_of_the_toolkit_is_refused(tmp_path: Path) -> None:
    outside = fill(tmp_path / "elsewhere", "x")
    folder = fill(tmp_path / "toolkit", "bin/nvcc")
    (folder / "lib64").symlink_to(outside)
    with pytest.raises(LabError, match="a link of the host's toolkit leads to"):
        toolkit._place(folder, "lib64/libcublas.so.13")


def test_a_complete_toolkit_is_taken_as_it_is(
    bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARKWRIGHT_LAB_CACHE", str(tmp_path / "cache"))
    fill(bare, toolkit.STUB, *[name for names in toolkit.PROOF.values() for name in names])
    ready = toolkit.prepare(toolkit.Toolkit(bare, "13.0.88"))
    assert ready.place == "/usr/local/cuda-13.0"
    assert '"wheels": {}' in (ready.folder / toolkit.NOTE).read_text()
    assert (ready.folder / "bin/nvcc").read_text() == "host's bin/nvcc"
    again = toolkit.prepare(toolkit.Toolkit(bare, "13.0.88"))
    assert again == ready
    fill(bare, "bin/ptxas")
    assert toolkit.prepare(toolkit.Toolkit(bare, "13.0.88")) != ready


def test_the_stub_has_every_call() -> None:
    assert toolkit.stub_source(["cuMemMap"]) == "int cuMemMap(void) { return 100; }\n"
    assert len(toolkit.stub_source().splitlines()) == len(set(toolkit.DRIVER_CALLS))


def test_a_host_without_nvcc_is_told_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(toolkit, "find", lambda: None)
    monkeypatch.setattr("tests.lab.host.missing", lambda: ["not root: run it with sudo"])
    assert program.main([]) == 1
    assert capsys.readouterr().err.splitlines() == [
        "missing:",
        "not root: run it with sudo",
        "no nvcc 13.0 or newer in $CUDA_HOME or /usr/local/cuda*: install NVIDIA's cuda-nvcc-13-0 "
        "and cuda-cudart-dev-13-0; nothing but this test needs them",
        program.WOULD,
    ]


GOOD = proof.Evidence(
    log=f"network interfaces: lo\n-- {proof.REPLACED}\n-- Configuring done\n",
    cache=f"//CUDA compiler\nCMAKE_CUDA_COMPILER:FILEPATH={NVCC}\nCMAKE_CUDA_FLAGS:STRING=\n",
    objects={"add-id.cu.o": "llm\nELF file    1: add-id.cu.1.sm_121a.cubin\n"},
    requests=(),
)


def listing(text: str) -> dict[str, str]:
    return {"x.cu.o": text}


@pytest.mark.parametrize(
    ("seen", "wrong"),
    [
        (GOOD, []),
        (replace(GOOD, log=GOOD.log.replace("with 121a", "with 121f")), ["has no line"]),
        (replace(GOOD, log=GOOD.log.replace(": lo", ": lo eth0")), ["interface beside lo"]),
        (
            replace(GOOD, cache="CMAKE_CUDA_COMPILER:FILEPATH=/usr/bin/nvcc\n"),
            [f"CMAKE_CUDA_COMPILER is /usr/bin/nvcc, not {NVCC}"],
        ),
        (replace(GOOD, cache=""), ["CMAKE_CUDA_COMPILER is None"]),
        (
            replace(GOOD, objects=listing("root\nELF file    1: x.1.sm_121a.cubin\n")),
            ["x.cu.o: owner is 'root', not llm"],
        ),
        (replace(GOOD, objects=listing("llm\n")), ["x.cu.o: no sm_121a alone"]),
        (
            replace(GOOD, objects=listing("llm\nELF file    1: x.1.sm_121.cubin\n")),
            ["x.cu.o: no sm_121a alone"],
        ),
        (
            replace(
                GOOD,
                objects=listing("llm\nELF file    1: x.sm_90.cubin\nELF file 2: x.sm_121a.cubin\n"),
            ),
            ["x.cu.o: no sm_121a alone"],
        ),
        (replace(GOOD, requests=("/simple/x",)), ["the upstream was asked for /simple/x"]),
    ],
)
def test_what_counts_as_proof(seen: proof.Evidence, wrong: list[str]) -> None:
    found = proof.problems(seen, NVCC, "llm")
    assert len(found) == len(wrong)
    assert all(part in text for part, text in zip(wrong, found, strict=True)), found


def test_ninja_targets() -> None:
    base = "ggml/src/ggml-cuda/CMakeFiles/ggml-cuda.dir"
    assert proof.object_of("add-id.cu") == proof.object_of("add-id") == f"{base}/add-id.cu.o"
    name = "template-instances/mmq-instance-mxfp4"
    assert proof.object_of(name) == f"{base}/{name}.cu.o"
