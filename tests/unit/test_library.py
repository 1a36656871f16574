"""A library on the laptop's side: the spec, the unit, room on the disk, and what is pushed."""

from __future__ import annotations

import dataclasses
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from sparkwright import push_library, serving
from sparkwright.bundle_layout import Entry
from sparkwright.errors import SparkwrightError
from sparkwright.library import places
from sparkwright.preflight_seen import places as held
from sparkwright.units import render_unit
from sparkwright.weights_plan import plan, spec_of
from tests.unit.machine_case import COMMIT, DIRECTORY, HASH, ITEM, PLACE, WEIGHTS, answers, data

NAS = "/mnt/models"
SHELVES: tuple[str, ...] = places(data(artifacts_library=NAS), "lab/tiny", COMMIT)
SHELVED = dataclasses.replace(WEIGHTS, library=SHELVES)
ON_NAS = dataclasses.replace(ITEM, weights=SHELVED)


def test_a_bundles_tree_and_plain_directories_are_places() -> None:
    found = places(data(artifacts_library=NAS), "lab/tiny", COMMIT)
    assert [place.removeprefix(NAS) for place in found] == [
        f"/hub/lab/tiny/resolve/{COMMIT}",
        f"/lab/tiny/{COMMIT}",
        f"/lab/tiny/{COMMIT[:12]}",
    ]
    assert places(data(), "lab/tiny", COMMIT) == ()


def test_the_spec_names_them() -> None:
    assert "library" not in spec_of(WEIGHTS, data(), "https://hub.example")
    settings = data(artifacts_library=NAS, artifacts_library_copy=True)
    spec = spec_of(SHELVED, settings, "https://hub.example")
    assert spec["library"] == list(SHELVES)
    assert spec["library_copy"] is True


def test_what_stays_there_takes_no_room_here() -> None:
    assert held(data(artifacts_library=NAS), SHELVED) == [DIRECTORY, *SHELVES]
    copy = data(artifacts_library=NAS, artifacts_library_copy=True)
    assert held(copy, SHELVED) == [DIRECTORY]


def unit(used: list[str]) -> str:
    stamp = {"text": json.dumps({"manifest_digest": "feed", "library": used})}
    found = dataclasses.replace(answers(), stamp=stamp)
    return render_unit(serving.service_of(ON_NAS, [ON_NAS], PLACE, found))


def test_a_unit_wants_the_mount_that_its_weights_are_really_on() -> None:
    cache = "/srv/sparkwright/cache/llm-tiny"
    assert f"RequiresMountsFor={DIRECTORY} {cache} {SHELVES[0]}\n" in unit([SHELVES[0]])
    assert f"RequiresMountsFor={DIRECTORY} {cache}\n" in unit([])


def test_a_stamp_cannot_name_other_places() -> None:
    """It is the service user's file."""
    assert "/etc/shadow" not in unit(["/etc/shadow"])


def test_a_bad_file_is_told_with_every_run() -> None:
    spec = spec_of(SHELVED, data(artifacts_library=NAS), "https://hub.example")
    said = {"ok": True, "manifest_digest": "feed", "missing": [], "changed": [], "leftovers": {},
            "refused": {"/mnt/models/x": "has 4 bytes, not 5"}}  # fmt: skip
    found = plan(SHELVED, spec, "llm", None, [{"rc": 0, "out": json.dumps(said)}])
    assert found.drift == ()
    assert found.notes == ("/mnt/models/x: has 4 bytes, not 5; it is not used",)


# --- the push ----------------------------------------------------------------------------------


@pytest.fixture
def rows(tmp_path: Path) -> tuple[Any, list[Entry]]:
    """A machine's data and a bundle's entries; its library has the first two of three."""
    names = ["a.gguf", "b.gguf", "c.gguf"]
    top = tmp_path / "nas/hub/lab/tiny/resolve" / COMMIT
    top.mkdir(parents=True)
    for name in names[:2]:
        (top / name).write_bytes(b"12345")
    entries = [Entry(f"hub/lab/tiny/resolve/{COMMIT}/{name}", 5, HASH) for name in names]
    settings = data(artifacts_library=str(tmp_path / "nas"), data_dir=str(tmp_path / "data"))
    return settings, [Entry("apt/Packages", 5, HASH), *entries]


def travels(settings: Any, files: list[Entry]) -> list[str]:
    spec = push_library.probe(settings, files)
    done = subprocess.run(spec["argv"], input=spec["stdin"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [entry.path[-6:] for entry in push_library.left(files, {"out": done.stdout})]


def test_what_the_library_has_does_not_travel(rows: tuple[Any, list[Entry]]) -> None:
    assert travels(*rows) == ["ckages", "c.gguf"]


def test_a_file_that_was_found_wrong_travels(rows: tuple[Any, list[Entry]]) -> None:
    settings, files = rows
    note = Path(settings["data_dir"]) / f"weights/lab/tiny/{COMMIT[:12]}" / push_library.REFUSED
    note.parent.mkdir(parents=True)
    bad = Path(settings["artifacts_library"]) / files[1].path
    info = bad.stat()
    text = json.dumps({str(bad): {"looks": [info.st_size, info.st_mtime_ns], "why": "x"}})
    note.write_text(text)
    assert travels(settings, files) == ["ckages", "a.gguf", "c.gguf"]
    bad.write_bytes(b"54321")
    assert travels(settings, files) == ["ckages", "c.gguf"]


def test_another_size_travels(rows: tuple[Any, list[Entry]]) -> None:
    settings, files = rows
    (Path(settings["artifacts_library"]) / files[1].path).write_bytes(b"1")
    assert travels(settings, files) == ["ckages", "a.gguf", "c.gguf"]


def test_no_answer_is_no_answer(rows: tuple[Any, list[Entry]]) -> None:
    with pytest.raises(SparkwrightError, match="cannot say what its library has: no python"):
        push_library.left(rows[1], {"rc": 1, "err": "no python"})
