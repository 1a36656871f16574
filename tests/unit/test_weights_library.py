"""Weights that stay in a directory that is mounted on the machine."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.hub_server import COMMIT, FakeHub
from tests.unit.weights_case import FILES, REPO, SHARDS, Case


@pytest.fixture
def case(tmp_path: Path) -> Iterator[Case]:
    """A case whose library has every wanted file, as the Hub has too."""
    with FakeHub(REPO, dict(FILES)) as hub:
        made = Case(tmp_path, hub)
        for name, content in made.wanted.items():
            path = shelf(made) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        made.spec["library"] = [str(tmp_path / "nas/elsewhere"), str(shelf(made))]
        yield made


def shelf(case: Case) -> Path:
    """The snapshot's directory in the library, as a bundle has it."""
    return case.tmp / "nas/hub" / REPO / "resolve" / COMMIT


def linked(case: Case) -> set[str]:
    """Files that are used where they lie."""
    return {name for name in case.wanted if (case.dir / name).is_symlink()}


def asked(case: Case) -> set[str]:
    return {name for name in case.wanted if case.hub.asked(name)}


def stamp(case: Case) -> list[str]:
    found: list[str] = json.loads((case.dir / ".sparkwright-stat.json").read_text())["library"]
    return found


def spoil(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[1000] ^= 1
    path.write_bytes(data)


def test_files_are_used_where_they_lie(case: Case) -> None:
    before = {path: path.stat().st_mtime_ns for path in (case.tmp / "nas").rglob("*")}
    case.fetch()
    assert case.hub.requests == []
    case.assert_complete()
    for name in case.wanted:
        assert (case.dir / name).readlink() == shelf(case) / name
    # Nothing of ours is written there: it may be read-only.
    assert {path: path.stat().st_mtime_ns for path in (case.tmp / "nas").rglob("*")} == before
    assert stamp(case) == [str(shelf(case))]
    assert "nothing to do" in case.fetch()


def test_another_mount_of_the_same_files_is_no_change(case: Case) -> None:
    """Some shares give other inodes after each mount."""
    case.fetch()
    copy = case.tmp / "copy"
    shutil.copytree(case.tmp / "nas", copy)
    shutil.rmtree(case.tmp / "nas")
    copy.rename(case.tmp / "nas")
    assert case.status()["ok"]


def test_a_bad_file_is_named_and_fetched_instead(case: Case) -> None:
    bad, short = shelf(case) / SHARDS[0], shelf(case) / SHARDS[1]
    spoil(bad)
    short.write_bytes(b"half")
    said = case.fetch()
    assert f"{bad}: has another hash than sha256:" in said
    assert f"{short}: has 4 bytes, not {len(FILES[SHARDS[1]])}; it is not used" in said
    assert asked(case) == {SHARDS[0], SHARDS[1]}
    assert linked(case) == set(case.wanted) - {SHARDS[0], SHARDS[1]}
    case.assert_complete()
    assert set(case.status()["refused"]) == {str(bad), str(short)}
    assert f"{bad} has another hash" in case.progress()["message"]


def test_a_file_that_went_bad_later_is_fetched_instead(case: Case) -> None:
    case.fetch()
    spoil(shelf(case) / SHARDS[2])
    found = case.status()
    assert (found["ok"], found["changed"]) == (False, [SHARDS[2]])
    case.fetch()
    assert asked(case) == {SHARDS[2]}
    case.assert_complete()
    # Mended there: nothing more to say, and the copy here stays.
    (shelf(case) / SHARDS[2]).write_bytes(FILES[SHARDS[2]])
    assert case.status()["refused"] == {}
    assert SHARDS[2] not in linked(case)


def test_a_snapshot_that_is_not_there_is_fetched(case: Case) -> None:
    shutil.rmtree(case.tmp / "nas")
    case.fetch()
    assert linked(case) == set()
    assert stamp(case) == []
    case.assert_complete()


def test_a_snapshot_that_vanished_is_fetched(case: Case) -> None:
    case.fetch()
    shutil.rmtree(case.tmp / "nas")
    assert case.status()["missing"] == sorted(case.wanted)
    case.fetch()
    assert linked(case) == set()
    case.assert_complete()


def test_a_failure_names_the_bad_file_too(case: Case) -> None:
    bad = shelf(case) / SHARDS[0]
    spoil(bad)
    case.hub.faults.deny_files = (404, "EntryNotFound")
    case.fetch(code=1)
    assert f"{bad} has another hash" in case.progress()["message"]
    # Noted although the job failed: a push brings that file next time.
    assert set(case.status()["refused"]) == {str(bad)}


def test_without_the_library_its_files_become_copies(case: Case) -> None:
    case.fetch()
    case.spec["library"] = []
    assert case.status()["missing"] == sorted(case.wanted)
    case.fetch()
    assert linked(case) == set()
    assert case.hub.requests == []
    case.assert_complete()


def test_a_link_to_another_place_is_no_library(case: Case) -> None:
    case.fetch()
    other = case.tmp / "other"
    other.write_bytes(FILES[SHARDS[0]])
    (case.dir / SHARDS[0]).unlink()
    (case.dir / SHARDS[0]).symlink_to(other)
    assert case.status()["missing"] == [SHARDS[0]]


def test_deep_reads_the_library_too(case: Case) -> None:
    case.fetch()
    path = shelf(case) / SHARDS[0]
    at = path.stat().st_mtime_ns
    spoil(path)
    os.utime(path, ns=(at, at))
    assert case.status()["ok"]
    assert case.status("--deep")["changed"] == [SHARDS[0]]


def test_a_link_in_the_library_is_no_file(case: Case) -> None:
    path = shelf(case) / SHARDS[0]
    path.rename(case.tmp / "blob")
    path.symlink_to(case.tmp / "blob")
    case.fetch()
    assert asked(case) == {SHARDS[0]}
    case.assert_complete()


def test_copies_are_proved_and_a_bad_file_is_named(case: Case) -> None:
    case.spec["library_copy"] = True
    bad = shelf(case) / SHARDS[1]
    spoil(bad)
    said = case.fetch()
    assert f"{bad}: has another hash than sha256:" in said
    assert asked(case) == {SHARDS[1]}
    assert linked(case) == set()
    assert stamp(case) == []
    shutil.rmtree(case.tmp / "nas")
    case.assert_complete()
