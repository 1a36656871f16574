"""The weights agent on directories that are not as it left them: damage, adoption, leftovers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.hub_server import COMMIT, FakeHub
from tests.unit.weights_case import AGENT, FILES, REPO, SHARDS, UNWANTED, Case

SHARD = SHARDS[1]


@pytest.fixture
def case(tmp_path: Path) -> Iterator[Case]:
    with FakeHub(REPO, dict(FILES)) as hub:
        yield Case(tmp_path, hub)


def _truncate_with_old_time(path: Path) -> None:
    state = path.stat()
    os.truncate(path, 1000)
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))


def _touch_changed(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[500] ^= 1
    path.write_bytes(data)


def _flip_with_old_time(path: Path) -> None:
    state = path.stat()
    with path.open("r+b") as file:
        file.seek(500)
        file.write(b"!")
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))


def _dangling_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("/nowhere/blobs/abc")


def _empty_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


SEEN_BY_STAT = [
    (_truncate_with_old_time, "changed"),
    (_touch_changed, "changed"),
    (Path.unlink, "missing"),
    (_dangling_link, "missing"),
    (_empty_directory, "missing"),
]


@pytest.mark.parametrize(("damage", "kind"), SEEN_BY_STAT)
def test_damage_is_seen_by_the_fast_status_and_repaired(
    case: Case, damage: Callable[[Path], None], kind: str
) -> None:
    case.fetch()
    damage(case.dir / SHARD)
    state = case.status()
    assert not state["ok"]
    assert state[kind] == [SHARD]
    case.hub.requests.clear()
    case.fetch()
    case.assert_complete()
    assert {path: case.hub.asked(path) for path in case.wanted} == {
        path: int(path == SHARD) for path in case.wanted
    }


def test_byte_flipped_under_the_old_time_is_found_by_deep_only(case: Case) -> None:
    case.fetch()
    _flip_with_old_time(case.dir / SHARD)
    assert case.status()["ok"]
    state = case.status("--deep")
    assert not state["ok"]
    assert state["changed"] == [SHARD]
    assert state["missing_bytes"] == len(FILES[SHARD])
    # The stamp no longer vouches for it, so a plain fetch repairs it.
    assert not case.status()["ok"]
    case.hub.requests.clear()
    case.fetch()
    case.assert_complete()
    assert case.status("--deep")["ok"]
    assert case.hub.asked(SHARD) == 1
    assert case.hub.asked(SHARDS[0]) == 0


def test_deep_fetch_needs_no_status_before_it(case: Case) -> None:
    case.fetch()
    _flip_with_old_time(case.dir / SHARD)
    case.fetch("--deep")
    case.assert_complete()
    assert case.status("--deep")["ok"]


def test_touched_file_of_the_right_content_is_not_fetched(case: Case) -> None:
    case.fetch()
    os.utime(case.dir / SHARD)
    assert case.status()["changed"] == [SHARD]
    case.hub.requests.clear()
    case.fetch()
    case.assert_complete()
    assert case.hub.requests == []


@pytest.mark.parametrize("name", ["MANIFEST.json", "SHA256SUMS", ".sparkwright-stat.json"])
@pytest.mark.parametrize("text", ["", "{broken", None])
def test_lost_or_edited_records_are_written_again(case: Case, name: str, text: str | None) -> None:
    case.fetch()
    path = case.dir / name
    path.unlink()
    if text is not None:
        path.write_text(text)
    assert not case.status()["ok"]
    case.hub.requests.clear()
    case.fetch()
    case.assert_complete()
    assert case.hub.requests == []


def test_failed_repair_leaves_no_stamp(case: Case) -> None:
    case.fetch()
    (case.dir / SHARD).unlink()
    case.hub.faults.deny = (404, "RepoNotFound")
    case.fetch(code=1)
    assert not (case.dir / ".sparkwright-stat.json").exists()
    case.hub.faults.deny = None
    case.hub.requests.clear()
    case.fetch()
    case.assert_complete()
    assert case.hub.asked(SHARDS[0]) == 0


def test_directory_with_content_in_place_of_a_file_is_not_removed(case: Case) -> None:
    place = case.dir / SHARD
    place.mkdir(parents=True)
    (place / "mine").write_text("keep")
    assert f"{place}: Directory not empty" in case.fetch(code=1)
    assert (place / "mine").read_text() == "keep"


def test_leftovers_are_reported_with_bytes_and_kept(case: Case) -> None:
    for path in [*UNWANTED, "old-model.gguf"]:
        (case.dir / path).parent.mkdir(parents=True, exist_ok=True)
        (case.dir / path).write_bytes(FILES.get(path, b"g" * 123))
    text = case.fetch()
    case.assert_complete()
    sizes = {"original": 70_001, "metal": 50_001, "old-model.gguf": 123}
    assert case.status()["leftovers"] == sizes
    assert f"{case.dir}/original: 70001 bytes" in text
    for path in UNWANTED:
        assert (case.dir / path).read_bytes() == FILES[path]
    case.hub.requests.clear()
    assert "nothing to do" in case.fetch()
    assert case.hub.requests == []


def test_stale_unfinished_downloads_are_removed(case: Case) -> None:
    stale = case.dir / ".cache/huggingface/download/abc.def.12345678.incomplete"
    stale.parent.mkdir(parents=True)
    stale.write_bytes(b"s" * 5000)
    with (stale.parent / "open.incomplete").open("wb") as held:
        held.write(b"h")
        case.fetch()
        # A process holds it: somebody else's download.
        assert (stale.parent / "open.incomplete").exists()
    assert not stale.exists()


def test_files_that_a_dead_agent_was_writing_are_removed(case: Case) -> None:
    case.dir.mkdir()
    written = ("MANIFEST.json", "SHA256SUMS", ".sparkwright-stat.json")
    ours = [f".{name}.4711.tmp" for name in written]
    ours.append(f".sparkwright-{SHARDS[0]}.tmp")
    for name in [*ours, ".mine.tmp"]:
        (case.dir / name).write_text("half")
    case.fetch()
    case.assert_complete()
    left = {path.name for path in case.dir.iterdir()}
    assert not left & set(ours)
    assert ".mine.tmp" in left


def _old_copy(case: Case, bad: tuple[str, ...] = ()) -> Path:
    old = case.tmp / "old"
    for path, data in case.wanted.items():
        (old / path).parent.mkdir(parents=True, exist_ok=True)
        (old / path).write_bytes(data[:-1] + b"?" if path in bad else data)
    case.spec["adopt_dirs"] = [str(case.tmp / "absent"), str(old)]
    return old


def test_files_of_the_right_hash_are_adopted_by_hard_link(case: Case) -> None:
    old = _old_copy(case, bad=(SHARD,))
    case.fetch()
    case.assert_complete()
    for path in case.wanted:
        same = (old / path).samefile(case.dir / path)
        assert same == (path != SHARD), path
        assert case.hub.asked(path) == int(path == SHARD)
    assert (old / SHARD).read_bytes().endswith(b"?")


def test_complete_adoption_asks_nothing_of_the_hub(case: Case) -> None:
    _old_copy(case)
    case.fetch()
    case.assert_complete()
    assert case.hub.requests == []


def test_other_file_system_is_copied_from(case: Case) -> None:
    # The old copy lies on a tmpfs that lives as long as the namespace.
    _old_copy(case)
    old, keep = case.tmp / "old", case.tmp / "keep"
    old.rename(keep)
    old.mkdir()
    script = f'mount -t tmpfs none {old} && cp -r {keep}/. {old}/ && exec "$@"'
    argv = ["unshare", "--mount", "sh", "-c", script, "sh"]
    argv += [sys.executable, str(AGENT), "fetch", case.write_spec()]
    subprocess.run(argv, check=True, capture_output=True)
    case.assert_complete()
    assert case.hub.requests == []


def test_links_into_a_hub_cache_become_real_files(case: Case) -> None:
    blobs = case.tmp / "cache/blobs"
    blobs.mkdir(parents=True)
    case.dir.mkdir()
    for path, data in case.wanted.items():
        (blobs / path).write_bytes(data)
        (case.dir / path).symlink_to(blobs / path)
    case.fetch()
    case.assert_complete()
    assert case.hub.requests == []
    assert not any((case.dir / path).is_symlink() for path in case.wanted)


def test_hand_copied_files_are_verified_and_kept(case: Case) -> None:
    case.dir.mkdir()
    for path, data in case.wanted.items():
        (case.dir / path).write_bytes(data)
    assert case.status()["changed"] == sorted(case.wanted)
    case.fetch()
    case.assert_complete()
    assert case.hub.requests == []


def test_new_revision_fetches_only_what_differs(case: Case) -> None:
    case.fetch()
    new = b"new config" * 3
    case.hub.files["config.json"] = new
    case.wanted["config.json"] = new
    case.spec["files"] = [
        item if item["path"] != "config.json" else _config(new) for item in case.spec["files"]
    ]
    # The hub's own note says that this commit's config.json is there; it is not believed.
    case.hub.requests.clear()
    case.fetch()
    case.assert_complete()
    assert case.hub.asked("config.json") == 1
    assert case.hub.asked(SHARD) == 0


def _config(data: bytes) -> dict[str, Any]:
    from tests.unit.hub_server import git_sha1

    return {"path": "config.json", "size": len(data), "git_sha1": git_sha1(data)}


def test_names_with_pattern_characters_are_names(case: Case) -> None:
    from tests.unit.hub_server import git_sha1

    for path in ("a[1].txt", "deep/x*y.txt", "a1.txt"):
        case.hub.files[path] = path.encode()
    for path in ("a[1].txt", "deep/x*y.txt"):
        data = path.encode()
        case.wanted[path] = data
        item = {"path": path, "size": len(data), "git_sha1": git_sha1(data)}
        case.spec["files"].append(item)
    case.fetch()
    case.assert_complete()
    assert not (case.dir / "a1.txt").exists()


def test_unwritable_directory_is_named(case: Case) -> None:
    blocker = case.tmp / "blocker"
    blocker.write_text("")
    case.spec["dir"] = str(blocker / "weights")
    assert str(blocker / "weights") in case.fetch(code=1)


BAD_SPECS: list[tuple[dict[str, Any], str]] = [
    ({"commit": "main"}, "commit: must be 40 hex digits"),
    ({"dir": "relative"}, "dir: must be an absolute path"),
    ({"colour": 1}, "colour: unknown key"),
    ({"files": []}, "files: must be a list with at least one file"),
    ({"files": [{"path": "../x", "size": 1, "sha256": "0" * 64}]}, "must be plain and relative"),
    ({"files": [{"path": "MANIFEST.json", "size": 1, "sha256": "0" * 64}]}, "exclude it"),
    ({"files": [{"path": "x", "size": -1, "sha256": "0" * 64}]}, "size must be a number of bytes"),
    ({"files": [{"path": "x", "size": 1}]}, "needs sha256 or git_sha1"),
    ({"files": [{"path": "x", "size": 1, "sha256": "F" * 64}]}, "sha256 must be 64 hex digits"),
]


@pytest.mark.parametrize(("change", "message"), BAD_SPECS)
def test_bad_spec_is_refused_with_exit_2(case: Case, change: dict[str, Any], message: str) -> None:
    case.spec |= change
    assert message in case.fetch(code=2)
    assert not case.dir.exists()


def test_spec_may_come_from_standard_input(case: Case) -> None:
    case.fetch()
    argv = [sys.executable, str(AGENT), "status", "/dev/stdin"]
    answer = subprocess.run(
        argv, input=json.dumps(case.spec), capture_output=True, text=True, check=True
    )
    assert json.loads(answer.stdout)["ok"]
    assert COMMIT in case.spec["commit"]
