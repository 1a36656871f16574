"""What one machine needs of a bundle, and what preflight says of one that cannot be pushed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from sparkwright import push_plan, site
from sparkwright.deb_index import debs_of
from sparkwright.fleet import load_fleet
from sparkwright.fleet_settings import settings_defaults
from sparkwright.paths import PROJECT
from sparkwright.push_plan import deb_files, files_of, problems_of
from tests.bundle.place import Place


def machine(place: Place, serve: list[object], **changes: Any) -> dict[str, Any]:
    """A machine's data, as fleet_pyinfra.py gives it."""
    for cache in (site._lock, site._recipes, push_plan._files):
        cache.cache_clear()
    defaults = settings_defaults(PROJECT / "group_data/all.py")
    fleet = load_fleet(place.top / "sparks.yaml", defaults)
    return {
        **defaults,
        **fleet.sparks[0].settings,
        "lock_file": str(fleet.lock),
        "recipe_dirs": [str(path) for path in fleet.recipe_dirs],
        "serve": serve,
        "artifacts_from": "bundle",
        "artifacts_path": str(place.bundle),
        "artifacts_key": str(place.key),
        **changes,
    }


def tops(paths: list[str]) -> set[str]:
    return {path.split("/")[0] for path in paths}


def test_a_machine_gets_its_part_and_nothing_else(filled: Place) -> None:
    manifest = json.loads((filled.bundle / "MANIFEST.json").read_text())["files"]
    both = {entry.path for entry in files_of(machine(filled, ["model", "page"]))}
    assert {row["path"] for row in manifest} - both == {"artifacts.lock.yaml"}
    page = [entry.path for entry in files_of(machine(filled, ["page"]))]
    assert tops(page) == {"apt", "files", "images", "simple", "wheels"}
    model = [entry.path for entry in files_of(machine(filled, ["model"]))]
    assert tops(model) == {"apt", "files", "hub", "simple", "wheels"}


def broken_lock(place: Place) -> None:
    place.lock["hub"] += "/other"
    place.write()


def no_manifest(place: Place) -> None:
    (place.bundle / "MANIFEST.json").unlink()


def another_kind(place: Place) -> None:
    path = place.bundle / "MANIFEST.json"
    path.write_text(path.read_text().replace('"python": "3.12"', '"python": "3.11"'))


def short(place: Place) -> None:
    (place.bundle / f"wheels/{place.beta.name}").write_bytes(b"x")


def lost(place: Place) -> None:
    next(place.bundle.glob("hub/lab/m/resolve/*/README.md")).unlink()


def another_key(place: Place) -> None:
    place.key.write_bytes(b"no key")


def not_listed(place: Place) -> None:
    path = place.bundle / "MANIFEST.json"
    value = json.loads(path.read_text())
    value["files"] = [row for row in value["files"] if row["path"] != "images/page.tar"]
    path.write_text(json.dumps(value))


BROKEN: dict[str, tuple[Callable[[Place], None], str]] = {
    "lock": (broken_lock, "was made from another artifacts.lock.yaml ("),
    "manifest": (no_manifest, "holds no finished bundle (no MANIFEST.json)"),
    "kind": (another_kind, "was made for python 3.11, the machine has 3.12"),
    "short": (short, "has 1 bytes, not"),
    "lost": (lost, "README.md: is missing"),
    "key": (another_key, "bundle-key.asc: is no key ("),
    "listed": (not_listed, "images/page.tar (artifacts/page): is not in the bundle"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_cannot_be_pushed_is_named(filled: Place, name: str) -> None:
    assert problems_of(machine(filled, ["model", "page"])) == []
    spoil, wanted = BROKEN[name]
    spoil(filled)
    lines = problems_of(machine(filled, ["model", "page"]))
    assert len(lines) == 1, lines
    assert wanted in lines[0]


def test_a_disk_that_is_not_there_is_named(filled: Place, tmp_path: Path) -> None:
    lines = problems_of(machine(filled, ["model"], artifacts_path=str(tmp_path / "usb")))
    assert lines == [
        f"sparks.yaml: artifacts/path: no directory {tmp_path}/usb; "
        "is the disk mounted? The path is this laptop's"
    ]


def test_a_recipe_that_is_newer_than_the_lock_is_named(filled: Place) -> None:
    path = filled.top / "recipes/new.yaml"
    recipe = yaml.safe_load((filled.top / "recipes/model.yaml").read_text())
    recipe["weights"]["repo"] = "lab/new"
    path.write_text(yaml.safe_dump({**recipe, "port": 8099}))
    lines = problems_of(machine(filled, ["new"]))
    assert any("lab/new@main: the lock holds no commit" in line for line in lines), lines


LISTING = """\
Package: pa
Version: 1
Architecture: arm64
Depends: pb (>= 1) | pc, virtual
Filename: a.deb
Size: 1
SHA256: x
Url: u

Package: pb
Version: 1
Architecture: arm64
Pre-Depends: pd:any
Filename: b.deb
Size: 1
SHA256: x
Url: u

Package: pd
Version: 1
Architecture: arm64
Provides: x (= 1)
Filename: d.deb
Size: 1
SHA256: x
Url: u

Package: pe
Version: 1
Architecture: arm64
Provides: virtual (= 2), other
Filename: e.deb
Size: 1
SHA256: x
Url: u

Package: cuda-big
Version: 1
Architecture: arm64
Filename: big.deb
Size: 1
SHA256: x
Url: u
"""


def packages(*words: str) -> set[str]:
    return {file.split("_")[0] for file in deb_files(words, debs_of(LISTING))}


def test_packages_come_with_what_they_can_want() -> None:
    assert packages("pa") == {"pa", "pb", "pd", "pe"}
    assert packages("cuda-big=1") == {"cuda-big"}
    assert packages("not-there") == set()
