"""Our patches on the files of the real releases, and what gpt-oss is then asked.

Fetched from the package index into the lab's cache, once: some hundred kilobytes.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from sparkwright.vllm_profiles import load_patch
from tests.unit.machine_case import program
from tests.wheels.harmony import CHATS, MXFP4, NEW, OLD, SERVING, files_of, patched_files, rendered

PATCHES = program("vllm_patches")
NAMES = ("harmony-system-message", "cutlass-fp4-import")


@pytest.fixture(scope="module")
def patched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("vllm")
    return patched_files(folder, PATCHES, load_patch("harmony-system-message"))


def test_the_real_defect() -> None:
    """A second system block, whatever the variable says (vllm-project/vllm#33210)."""
    for texts in rendered(OLD):
        text = texts["system and user"]
        assert "<|start|>system<|message|>Always answer in French.<|end|>" in text
        assert "# Instructions" not in text


def test_patched_0_17_1_asks_what_0_33_0_asks(patched: Path) -> None:
    mine, theirs = rendered(OLD, patched), rendered(NEW)
    assert mine == theirs
    assert set(mine[0]) == set(CHATS)
    want = "<|start|>developer<|message|># Instructions\n\nAlways answer in French.<|end|>"
    assert want in mine[0]["system and user"]


def test_the_patched_files_are_python(patched: Path) -> None:
    for part in load_patch("harmony-system-message")["files"]:
        ast.parse((patched / part["path"]).read_text())


def test_stock_0_17_1_needs_no_other_import() -> None:
    done = PATCHES.apply_all(files_of(OLD), "0.17.1", [load_patch("cutlass-fp4-import")])
    assert done[0]["state"] == "not needed: this file lacks the defect"


def test_the_function_is_where_the_patch_imports_it_from() -> None:
    for name, has in (("quant_utils", False), ("nvfp4_utils", True)):
        path = files_of(OLD) / MXFP4.replace("mxfp4.py", f"utils/{name}.py")
        names = [n.name for n in ast.parse(path.read_text()).body if isinstance(n, ast.FunctionDef)]
        assert ("cutlass_fp4_supported" in names) == has


@pytest.mark.parametrize("name", NAMES)
def test_0_33_0_is_left_alone(name: str) -> None:
    done = PATCHES.apply_all(files_of(NEW), "0.33.0", [load_patch(name)])
    assert {record["state"] for record in done} == {"not needed: fixed in 0.23.0"}
    assert SERVING[NEW].endswith("online_renderer.py")
