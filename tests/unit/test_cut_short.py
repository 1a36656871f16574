"""What ends in the middle of a look or of a removal does not spoil what comes after."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.lab.host import remove_tree
from tests.unit.machine_case import program

FILES = program("weights_files")


def test_an_interrupted_removal_leaves_the_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, real = tmp_path / "run", shutil.rmtree
    (home / "machines").mkdir(parents=True)
    (home / ".mark").touch()

    def cut(path: Path, *rest: Any) -> None:
        real(path)
        raise KeyboardInterrupt

    monkeypatch.setattr(shutil, "rmtree", cut)
    with pytest.raises(KeyboardInterrupt):
        remove_tree(home)
    assert (home / ".mark").exists()
    monkeypatch.undo()
    remove_tree(home)
    assert not home.exists()


def test_a_process_that_ends_meanwhile_ends_no_look(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    real = os.scandir
    gone: list[Any] = []
    held = tmp_path / "held"
    held.touch()

    def vanishing(path: Any) -> Any:
        if not gone and str(path) != f"/proc/{os.getpid()}/fd":
            gone.append(path)
            raise ProcessLookupError
        return real(path)

    monkeypatch.setattr(os, "scandir", vanishing)
    with held.open():
        found = FILES._open_files()
    assert gone
    info = held.stat()
    assert (info.st_dev, info.st_ino) in found
