"""Files beside ours: found by the real probe, removed by the real command, nothing else touched."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from sparkwright.strays import NoStrays
from tests.unit.machine_case import program

PROBE = program("probe")


def drift(wanted: NoStrays) -> list[str]:
    return wanted.drift([PROBE.answer(spec) for spec in wanted.probes()])


@pytest.mark.parametrize(
    "name", ["ours.1", ".hidden", "with space", "new\nline", "-rf", "ours.partial", "q'uote", "*"]
)
def test_a_stray_is_named_and_removed(tmp_path: Path, name: str) -> None:
    for other in ("ours", name):
        (tmp_path / other).touch()
    wanted = NoStrays(str(tmp_path), ("ours", "not yet there"))
    states = [PROBE.answer(spec) for spec in wanted.probes()]
    assert wanted.drift(states) == [f"{tmp_path}/{name}: is not ours"]
    for command in wanted.fix(states):
        subprocess.run(["sh", "-c", command.shell], check=True)
    assert [path.name for path in tmp_path.iterdir()] == ["ours"]
    assert drift(wanted) == []


def test_a_dangling_link_is_a_stray_and_a_directory_is_not(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("nowhere")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/file").touch()
    assert drift(NoStrays(str(tmp_path), ())) == [f"{tmp_path}/link: is not ours"]


def test_a_directory_that_is_not_there_yet_has_none(tmp_path: Path) -> None:
    assert drift(NoStrays(f"{tmp_path}/later", ("ours",))) == []
