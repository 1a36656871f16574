"""One machine's plan from its data: recipes joined with the lock, shared snapshots, messages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from sparkwright import llama_server, site
from sparkwright.errors import Problems, SparkwrightError
from sparkwright.paths import PROJECT
from tests.unit.machine_case import COMMIT, HASH, data

FILES = {
    "a-Q4.gguf": 40,
    "a-Q8.gguf": 80,
    "README.md": 1,
    "original/model.bin": 500,
}


def recipe(name: str, root: Path, port: int, **weights: Any) -> None:
    text = {
        "engine": "llama.cpp",
        "description": name,
        "port": port,
        "memory_gib": 10,
        "context": 4096,
        "weights": {"repo": "lab/a", "revision": "main", "license": "mit", **weights},
        "acceptance": {"question": "2+2?", "expect": "4"},
    }
    (root / f"recipes/{name}.yaml").write_text(yaml.safe_dump(text))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Recipes q4 and q8 of one snapshot, `all` with an exclude, `new` that the lock lacks."""
    (tmp_path / "recipes").mkdir()
    recipe("q4", tmp_path, 8081, include=["*Q4.gguf"])
    recipe("q8", tmp_path, 8082, include=["*Q8.gguf"], gated=True)
    recipe("all", tmp_path, 8083, exclude=["original/*", "*Q8.gguf"])
    recipe("typo", tmp_path, 8084, include=["*Q5.gguf"])
    recipe("new", tmp_path, 8085, repo="lab/new")
    files = [{"path": path, "size": size, "sha256": HASH} for path, size in FILES.items()]
    snapshot = {"repo": "lab/a", "revision": "main", "commit": COMMIT, "license": "mit"}
    lock = {
        "format": 1,
        "hub": "https://hub.example",
        "artifacts": {"half": {"kind": "file", "url": "https://x.example/f"}},
        "snapshots": {"lab/a@main": {**snapshot, "files": files}},
    }
    (tmp_path / "artifacts.lock.yaml").write_text(yaml.safe_dump(lock))
    return tmp_path


def machine(root: Path, *serve: Any, **settings: Any) -> dict[str, Any]:
    places = {
        "recipe_dirs": [f"{root}/recipes"],
        "lock_file": f"{root}/artifacts.lock.yaml",
    }
    return data(serve=list(serve), **{**places, **settings})


def test_nothing_served_is_nothing_planned(root: Path) -> None:
    assert site.planned(machine(root)) == ()


def test_a_recipe_takes_its_own_values_and_then_the_settings(root: Path) -> None:
    (item,) = site.planned(machine(root, "q4", listen="10.0.0.1", api_key="generate"))
    assert item.unit == "llm-q4"
    assert (item.port, item.listen, item.api_key) == (8081, "10.0.0.1", "generate")
    assert item.state == "running"
    assert site.need(item.weights).directory == f"/srv/sparkwright/weights/lab/a/{COMMIT[:12]}"
    assert [file.path for file in site.need(item.weights).files] == ["a-Q4.gguf"]


def test_the_fleets_entry_wins(root: Path) -> None:
    entry = {"recipe": "q4", "port": 9, "listen": "::1", "api_key": "open", "state": "standby"}
    (item,) = site.planned(machine(root, entry))
    assert (item.port, item.listen, item.api_key, item.state) == (9, "::1", "open", "standby")
    empty = {"recipe": "q4", "port": None, "listen": None, "api_key": None, "state": "running"}
    (item,) = site.planned(machine(root, empty))
    assert (item.port, item.listen, item.api_key) == (8081, "127.0.0.1", "none")


def test_the_order_is_by_name_whatever_the_fleet_says(root: Path) -> None:
    names = [i.unit for i in site.planned(machine(root, "q8", "all", "q4"))]
    assert names == ["llm-all", "llm-q4", "llm-q8"]


def test_recipes_of_one_snapshot_share_a_directory_and_join_their_files(root: Path) -> None:
    one, two = site.planned(machine(root, "q8", "q4"))
    assert one.weights == two.weights
    assert [file.path for file in site.need(one.weights).files] == ["a-Q4.gguf", "a-Q8.gguf"]
    assert set(site.need(one.weights).include) == {"*Q4.gguf", "*Q8.gguf"}
    assert site.need(one.weights).gated  # one of them needs the token, whichever comes first
    assert site.need(site.planned(machine(root, "q4", "q8"))[0].weights).gated
    # And each still serves its own model.
    assert llama_server.first_shard(one.files) == "a-Q4.gguf"
    assert llama_server.first_shard(two.files) == "a-Q8.gguf"


def test_an_exclude_counts_only_when_all_of_them_say_it(root: Path) -> None:
    (alone,) = site.planned(machine(root, "all"))
    assert site.need(alone.weights).exclude == ("original/*", "*Q8.gguf")
    assert "original/model.bin" not in [file.path for file in site.need(alone.weights).files]
    joined = site.need(site.planned(machine(root, "all", "q4"))[0].weights)
    assert joined.exclude == ()
    assert "original/model.bin" not in [file.path for file in joined.files]


def test_everything_wrong_is_said_at_once(root: Path) -> None:
    with pytest.raises(SparkwrightError) as error:
        site.planned(machine(root, "tipo", "typo", "new", "q4"))
    assert str(error.value).splitlines() == [
        "serve/0: no recipe named tipo; did you mean typo?",
        'recipes/typo.yaml: weights: include "*Q5.gguf" matches no file of the repository; '
        "correct or remove it",
        "artifacts.lock.yaml: lab/new@main: the lock holds no commit and file list for it, and "
        "recipe new needs them; run `sparkwright lock` on a connected machine",
    ]


def test_a_choice_that_holds_no_single_model_is_said_before_it_is_fetched(root: Path) -> None:
    recipe("both", root, 8086, include=["*.gguf"])
    recipe("none", root, 8087, include=["README.md"])
    with pytest.raises(SparkwrightError) as error:
        site.planned(machine(root, "both", "none"))
    assert str(error.value).splitlines() == [
        "recipes/both.yaml: weights: more than one model (a-Q4.gguf, a-Q8.gguf); narrow the "
        "recipe's include",
        "recipes/none.yaml: weights: no .gguf file among them; check the recipe's include",
    ]


def test_problems_can_be_collected_by_the_caller(root: Path) -> None:
    problems = Problems()
    items = site.planned(machine(root, "q5", "q4"), problems)
    assert [item.unit for item in items] == ["llm-q4"]
    assert len(problems) == 1


def test_an_unresolved_artifact_names_the_command(root: Path) -> None:
    with pytest.raises(SparkwrightError) as error:
        site.artifact(machine(root), "half")
    assert str(error.value) == (
        "artifacts.lock.yaml: artifacts/half: size and sha256 not known yet; run: sparkwright lock"
    )
    with pytest.raises(SparkwrightError, match="is not in the lock; did you mean half"):
        site.artifact(machine(root), "hal")


def test_need_refuses_what_is_absent_and_keeps_what_is_empty() -> None:
    assert site.need(0) == 0
    assert site.need("") == ""
    with pytest.raises(SparkwrightError):
        site.need(None)


def test_relative_places_are_the_projects() -> None:
    assert site.recipes_of(data())["gpt-oss-120b-llamacpp"].port == 8080
    assert site.lock_of(data()).path == PROJECT / "artifacts.lock.yaml"
