"""files/opt/sparkwright/lib/vllm_patches.py: known files alone are changed, and back again."""

from __future__ import annotations

import difflib
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from sparkwright.vllm_profiles import load_patch
from tests.unit.machine_case import program

for _name in ("make_venv", "vllm_checks"):
    program(_name)
PATCHES = program("vllm_patches")
program("vllm_install")
MAKE = program("make_vllm")
OLD = "".join(f"line {n}\n" for n in range(1, 40)).replace("line 20\n", "    wrong = True\n")
NEW = OLD.replace("wrong", "right").replace("line 2\n", "").replace("line 38\n", "line 38\nmore\n")
FILE = "vllm/deep/serving.py"


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def patch(**changes: Any) -> dict[str, Any]:
    """A patch of the file above."""
    lines = difflib.unified_diff(
        OLD.splitlines(True), NEW.splitlines(True), f"a/{FILE}", f"b/{FILE}", n=3
    )
    part = {"path": FILE, "known": {sha256(OLD): sha256(NEW)}, "clean": [sha256("clean\n")]}
    return {"name": "p", "fixed_in": "0.23.0", "diff": "".join(lines), "files": [part], **changes}


class Venv:
    """site-packages with the file, and what was done to it."""

    def __init__(self, root: Path) -> None:
        self.top = root
        self.site = root / "lib/python3.12/site-packages"
        self.file = self.site / FILE
        self.file.parent.mkdir(parents=True)
        self.file.write_text(OLD)
        self.file.chmod(0o640)

    def apply(self, version: str = "0.17.1", **changes: Any) -> list[dict[str, str]]:
        found: list[dict[str, str]] = PATCHES.apply_all(self.site, version, [patch(**changes)])
        (self.top / ".record.json").write_text(json.dumps({"patches": found}))
        return found

    def unpatch(self) -> int:
        return int(MAKE.main(["unpatch", str(self.top)]))


@pytest.fixture
def venv(tmp_path: Path) -> Venv:
    return Venv(tmp_path)


def test_a_known_file_is_changed_and_its_original_kept(venv: Venv) -> None:
    link = venv.top / "in uv's cache"
    link.hardlink_to(venv.file)
    before, after = sha256(OLD), sha256(NEW)
    want = {"patch": "p", "path": FILE, "state": "applied", "before": before, "after": after}
    assert venv.apply() == [want]
    assert venv.file.read_text() == NEW
    assert venv.file.stat().st_mode & 0o777 == 0o640
    assert venv.file.with_name(f"serving.py.{before[:12]}.orig").read_text() == OLD
    assert link.read_text() == OLD


def test_it_can_be_taken_back(venv: Venv, capsys: pytest.CaptureFixture[str]) -> None:
    venv.apply()
    assert venv.unpatch() == 0
    assert capsys.readouterr().out == f"{venv.file}: the original is back\n"
    assert venv.file.read_text() == OLD
    assert [path.name for path in venv.file.parent.iterdir()] == ["serving.py"]


@pytest.mark.parametrize("which", ["the file", "the original"])
def test_it_is_not_taken_back_over_somebody_elses_change(
    venv: Venv, which: str, capsys: pytest.CaptureFixture[str]
) -> None:
    venv.apply()
    original = venv.file.with_name(f"serving.py.{sha256(OLD)[:12]}.orig")
    place, wanted = (venv.file, NEW) if which == "the file" else (original, OLD)
    place.write_text("changed\n")
    assert venv.unpatch() == 1
    assert capsys.readouterr().err == (
        f"vllm: {place}: sha256 is {sha256('changed' + chr(10))}, not {sha256(wanted)}; "
        "put it right first\n"
    )
    assert place.read_text() == "changed\n"


def test_an_unknown_file_is_refused_with_both_hashes(venv: Venv) -> None:
    venv.file.write_text("another release\n")
    with pytest.raises(PATCHES.PatchError) as error:
        venv.apply()
    have = sha256("another release\n")
    assert str(error.value) == (
        f"{venv.file}: sha256 is {have}, patch p knows {sha256(OLD)}; take the patch out of the "
        "profile, or check the file and add its hash"
    )
    assert venv.file.read_text() == "another release\n"


def test_nothing_is_changed_when_one_file_is_unknown(venv: Venv) -> None:
    (venv.site / "vllm/other.py").write_text("x")
    other = {"path": "vllm/other.py", "known": {sha256("y"): sha256("z")}, "clean": []}
    with pytest.raises(PATCHES.PatchError, match=r"other\.py: sha256 is"):
        venv.apply(files=[*patch()["files"], other])
    assert venv.file.read_text() == OLD


def test_a_missing_file_is_named(venv: Venv) -> None:
    venv.file.unlink()
    with pytest.raises(PATCHES.PatchError, match="is not there; patch p is for another vLLM"):
        venv.apply()


@pytest.mark.parametrize(
    ("version", "fixed"),
    [
        ("0.17.1", False), ("0.17.1+cu130", False), ("0.22.1", False), ("0.23.0rc1", False),
        ("0.23.0.dev5", False), ("0.23.0", True), ("0.23.0+cu130", True), ("0.33.0", True),
        ("0.23.1rc1.dev701+g00eb7cefa.d20260701", True), ("1.0", True),
    ],
)  # fmt: skip
def test_releases_with_the_fix_are_left_alone(venv: Venv, version: str, fixed: bool) -> None:
    venv.file.write_text(OLD if not fixed else "whatever\n")
    state = venv.apply(version)[0]["state"]
    assert state == ("not needed: fixed in 0.23.0" if fixed else "applied")


def test_a_file_without_the_defect_is_left_alone(venv: Venv) -> None:
    venv.file.write_text("clean\n")
    assert venv.apply()[0]["state"] == "not needed: this file lacks the defect"
    assert venv.unpatch() == 0
    assert venv.file.read_text() == "clean\n"


def test_a_patched_file_is_not_patched_again(venv: Venv) -> None:
    venv.apply()
    assert venv.apply()[0]["state"] == "applied before"
    assert venv.file.read_text() == NEW


def test_a_damaged_patch_changes_nothing(venv: Venv) -> None:
    diff = patch()["diff"]
    with pytest.raises(PATCHES.PatchError, match=r"gives sha256 .*, not .*; the patch is damaged"):
        venv.apply(diff=diff.replace("right", "left"))
    with pytest.raises(PATCHES.PatchError, match="line 17 is not what the patch expects"):
        venv.apply(diff=diff.replace(" line 17", " line 71"))
    assert venv.file.read_text() == OLD


def test_each_file_of_a_diff_has_its_own_hunks() -> None:
    found = load_patch("harmony-system-message")
    for part in found["files"]:
        hunks = PATCHES.section(found["diff"], part["path"])
        assert hunks[0].startswith("@@ ")
        assert not any(line.startswith(("--- ", "+++ ")) for line in hunks)
    assert PATCHES.section(found["diff"], "vllm/none.py") == []
