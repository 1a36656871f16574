"""What a bundle is made from: recipes, lock and packages that do not fit each other are told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from sparkwright.bundle_inputs import read_inputs
from sparkwright.errors import SparkwrightError
from tests.bundle.place import Place

DEBS = "artifacts.lock.yaml: artifacts/debs-ubuntu-24.04-arm64"
COMMAND = "run on Debian or Ubuntu: sparkwright lock --debs SPARK"


def refused(place: Place) -> list[str]:
    with pytest.raises(SparkwrightError) as error:
        place.inputs()
    return str(error.value).splitlines()


def test_needs_hold_something_of_every_kind(place: Place) -> None:
    needs = place.inputs().needs
    assert {item.path.split("/")[0] for item in needs.files} == {"files", "hub"}
    assert [item.artifact for item in needs.sets] == ["hub-client"]
    assert [item.name for item in needs.images] == ["page"]
    assert needs.debs is not None
    assert set(needs.packages) >= {"build-essential", "cmake", "gpg"}


def test_the_files_are_those_that_the_recipe_keeps(place: Place) -> None:
    paths = [item.path.rsplit("/", 1)[1] for item in place.inputs().needs.files if item.hub]
    assert paths == ["README.md", "m-Q4.gguf"]


def test_a_lock_that_is_older_than_the_recipes_is_told_completely(place: Place) -> None:
    """A new recipe, a new package and an artifact that nobody resolved, in one report."""
    recipe = yaml.safe_load((place.top / "recipes/model.yaml").read_text())
    recipe["weights"]["repo"] = "lab/new"
    (place.top / "recipes/new.yaml").write_text(yaml.safe_dump(recipe))
    place.serve = ["model", {"recipe": "new", "port": 8085}]
    place.settings["packages_extra"] = ["ccache"]
    del place.lock["artifacts"]["tiktoken-o200k_base"]["sha256"]
    place.write()
    assert refused(place) == [
        "artifacts.lock.yaml: lab/new@main: the lock holds no commit and file list for it, and "
        "recipe new needs them; run `sparkwright lock` on a connected machine",
        "artifacts.lock.yaml: artifacts/tiktoken-o200k_base: sha256 not known yet; "
        "run: sparkwright lock",
        f"{DEBS}: is older than the recipes: no ccache; {COMMAND}",
    ]


def test_packages_that_the_machine_has_need_no_file(place: Place) -> None:
    place.settings["packages_extra"] = ["libc6"]
    place.write()
    assert place.inputs().needs.packages.count("libc6") == 1


def test_a_lock_without_packages_is_told(place: Place) -> None:
    del place.lock["artifacts"]["debs-ubuntu-24.04-arm64"]
    place.write()
    what = "the lock names no packages for ubuntu 24.04 on aarch64"
    assert refused(place) == [f"{DEBS}: {what}; {COMMAND}"]


def test_a_listing_that_was_edited_is_told(place: Place) -> None:
    (place.top / "debs/u.packages").write_text(place.listing + "\n")
    (line,) = refused(place)
    assert line.startswith(f"{DEBS}: debs/u.packages has sha256 ")
    assert line.endswith(f"look at the change, then {COMMAND}")


def test_a_wheel_set_that_was_edited_is_told(place: Place) -> None:
    (place.top / "hub-client.txt").write_text("alpha==1.0\n")
    (line,) = refused(place)
    assert line.startswith("artifacts.lock.yaml: artifacts/hub-client: ")
    assert line.endswith("look at the change, then run: sparkwright lock")


def two_kinds(place: Place) -> Path:
    path = place.top / "sparks.yaml"
    fleet: dict[str, Any] = yaml.safe_load(path.read_text())
    settings = {"os_releases": ["debian 13"]}
    fleet["sparks"]["spark-2"] = {"address": "192.0.2.2", "serve": [], "settings": settings}
    path.write_text(yaml.safe_dump(fleet))
    return path


def test_machines_of_two_kinds_want_two_bundles(place: Place) -> None:
    path = two_kinds(place)
    with pytest.raises(SparkwrightError) as error:
        read_inputs(path)
    assert str(error.value) == (
        "sparks.yaml: machines of several kinds (ubuntu 24.04 on aarch64: spark-1; "
        "debian 13 on aarch64: spark-2); make one bundle for each kind, with --for"
    )
    assert read_inputs(path, {"spark-1"}).needs.target.os == "ubuntu 24.04"


def test_a_bundle_for_one_spark_holds_what_that_one_needs(place: Place) -> None:
    path = two_kinds(place)
    text = path.read_text().replace("debian 13", "ubuntu 24.04")
    path.write_text(text)
    assert not read_inputs(path, {"spark-2"}).needs.images
    assert read_inputs(path, {"spark-1", "spark-2"}).needs == read_inputs(path).needs


def test_an_unknown_spark_is_told(place: Place) -> None:
    with pytest.raises(SparkwrightError, match="--for: no spark named spark-9; did you mean"):
        read_inputs(place.top / "sparks.yaml", {"spark-9"})


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"arch": "riscv64"}, "sparks.yaml: sparks/spark-1/settings/arch: riscv64 is not known"),
        (
            {"os_releases": ["ubuntu 30.04"]},
            "sparks.yaml: sparks/spark-1/settings/os_releases: ubuntu 30.04 is not known here",
        ),
    ],
)
def test_an_unknown_kind_of_machine_is_told(
    place: Place, settings: dict[str, object], told: str
) -> None:
    place.settings |= settings
    place.write()
    assert refused(place)[0].startswith(told)
