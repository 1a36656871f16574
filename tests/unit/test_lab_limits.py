"""The lab's room for many machines, on a file in place of the kernel's."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab import limits
from tests.lab.host import LabError


@pytest.mark.parametrize(
    ("machines", "have", "after"), [(8, 128, 128), (32, 128, 288), (32, 1024, 1024)]
)
def test_room_is_made_only_where_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, machines: int, have: int, after: int
) -> None:
    limit = tmp_path / "max_user_instances"
    limit.write_text(f"{have}\n")
    monkeypatch.setattr(limits, "INOTIFY", limit)
    limits.make_room(machines)
    assert int(limit.read_text()) == after


def test_a_host_that_refuses_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    class Fixed:
        def read_text(self) -> str:
            return "128\n"

        def write_text(self, text: str) -> None:
            raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(limits, "INOTIFY", Fixed())
    with pytest.raises(LabError, match=r"max_user_instances=288$"):
        limits.make_room(32)
