"""`sparkwright weights` on the machine: what is found, who claims it, and what a prune removes."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.unit.hub_server import sha256
from tests.unit.machine_case import program
from tests.unit.weights_case import LIB

store: Any = program("weights_store")
prune: Any = program("weights_prune")
OLD, NEW = "a" * 12, "b" * 12
NOW = 1_000_000.0


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of weights; units are looked for below it, not on this computer."""
    monkeypatch.setattr(store, "UNITS", (str(tmp_path / "units"),))
    monkeypatch.setitem(sys.modules, "weights_store", store)
    (tmp_path / "units").mkdir()
    (tmp_path / "weights").mkdir()
    return tmp_path / "weights"


def snapshot(root: Path, name: str, used: float = NOW, size: int = 5000) -> Path:
    """A finished snapshot with one file, as the agent leaves it."""
    place = root / name
    place.mkdir(parents=True)
    data = place.name.encode() * size
    file = place / "model.gguf"
    file.write_bytes(data)
    os.utime(file, (used, used))
    os.utime(place, (used, used))
    rows = [{"path": "model.gguf", "size": len(data), "sha256": sha256(data)}]
    (place / store.MANIFEST).write_text(json.dumps({"files": rows}))
    mark(place)
    os.utime(place, (used, used))
    return place


def mark(place: Path) -> None:
    """Write the stamp for the files as they are."""
    state = (place / "model.gguf").stat()
    stat = [state.st_size, state.st_mtime_ns, state.st_ino]
    (place / store.STAMP).write_text(json.dumps({"files": {"model.gguf": {"stat": stat}}}))


def spec(root: Path, **changes: Any) -> dict[str, Any]:
    return {"root": str(root), "recipes": {}, "pins": [], "lib": str(LIB), "check": "fast",
            "apply": False, "older_s": None, "want_free": None, **changes}  # fmt: skip


def rows(root: Path, **changes: Any) -> dict[str, dict[str, Any]]:
    found = store.look(spec(root, **changes))["snapshots"]
    return {f"{row['repo']}/{row['commit']}": row for row in found}


def test_every_snapshot_is_listed(root: Path) -> None:
    one, two = snapshot(root, f"lab/tiny/{OLD}"), snapshot(root, f"gpt2/{NEW}", NOW + 5)
    found = rows(root)
    assert set(found) == {f"lab/tiny/{OLD}", f"gpt2/{NEW}"}
    row = found[f"lab/tiny/{OLD}"]
    assert row["bytes"] == sum(path.stat().st_size for path in one.iterdir())
    assert (row["directory"], row["last_use"], row["claims"]) == (str(one), NOW, [])
    assert row["check"] == {"ok": True, "missing": [], "changed": []}
    assert found[f"gpt2/{NEW}"]["last_use"] == NOW + 5
    assert found[f"gpt2/{NEW}"]["directory"] == str(two)


def test_reading_counts_as_use_and_reading_our_notes_does_not(root: Path) -> None:
    place = snapshot(root, f"lab/tiny/{OLD}")
    os.utime(place / store.STAMP, (NOW + 99, NOW + 99))
    assert rows(root)[f"lab/tiny/{OLD}"]["last_use"] == NOW
    os.utime(place / "model.gguf", (NOW + 50, NOW))
    assert rows(root)[f"lab/tiny/{OLD}"]["last_use"] == NOW + 50


def test_what_is_no_snapshot_is_foreign_and_links_are_not_followed(
    root: Path, tmp_path: Path
) -> None:
    outside = snapshot(tmp_path / "outside", f"x/{OLD}")
    (root / "lab").mkdir()
    (root / "lab/link").symlink_to(outside.parent)
    (root / "mine.gguf").write_text("x")
    (root / "lab/tiny/deep/folder").mkdir(parents=True)
    found = store.look(spec(root))
    assert found["snapshots"] == []
    names = ["lab/link", "lab/tiny/deep", "mine.gguf"]
    assert found["foreign"] == [str(root / name) for name in names]


def test_a_machine_without_weights(tmp_path: Path) -> None:
    assert store.look(spec(tmp_path / "none"))["snapshots"] == []


def test_units_claim_what_they_name(root: Path, tmp_path: Path) -> None:
    place = snapshot(root, f"lab/tiny/{OLD}")
    (tmp_path / "units/mine.service").write_text(f"ExecStart=/bin/x --model {place}/model.gguf\n")
    folder = tmp_path / "units/other.service.d"
    folder.mkdir()
    (folder / "more.conf").write_text(f"BindPaths={place}\n")
    (tmp_path / "units/not.service").write_text(f"ExecStart=/bin/x {place}f\n")
    claims = rows(root)[f"lab/tiny/{OLD}"]["claims"]
    assert claims == [{"by": "unit", "name": n} for n in ("mine.service", "other.service")]


@pytest.mark.parametrize(
    ("pin", "holds"),
    [("lab/tiny", True), (f"lab/tiny@{OLD}ffff", True), ("lab/tiny@aaaa", True),
     (f"lab/tiny@{NEW}", False), ("lab/tin", False), ("tiny", False)],
)  # fmt: skip
def test_pins(root: Path, pin: str, holds: bool) -> None:
    snapshot(root, f"lab/tiny/{OLD}")
    assert bool(rows(root, pins=[pin])[f"lab/tiny/{OLD}"]["claims"]) is holds


HOLD = {
    "open": "f = open(PATH); print(1, flush=True); input()",
    "mapped": "import mmap; f = open(PATH); m = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ);"
    "f.close(); print(1, flush=True); input()",
    "there": "import os; os.chdir(os.path.dirname(PATH)); print(1, flush=True); input()",
}


@pytest.mark.parametrize("how", HOLD)
def test_processes_claim_what_they_hold(root: Path, how: str) -> None:
    place = snapshot(root, f"lab/tiny/{OLD}")
    other = snapshot(root, f"lab/tiny/{NEW}")
    code = HOLD[how].replace("PATH", repr(str(place / "model.gguf")))
    words = [sys.executable, "-c", code]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout
        assert holder.stdin
        holder.stdout.readline()
        found = rows(root)
        done = prune.prune(spec(root, apply=True), NOW)
        holder.stdin.write(b"\n")
    claims = found[f"lab/tiny/{OLD}"]["claims"]
    assert [(c["by"], str(holder.pid) in c["name"]) for c in claims] == [("process", True)]
    assert [row["directory"] for row in done["removed"]] == [str(other)]
    assert (place.exists(), other.exists()) == (True, False)


def test_damage_is_found_without_a_recipe(root: Path) -> None:
    place = snapshot(root, f"lab/tiny/{OLD}")
    data = bytearray((place / "model.gguf").read_bytes())
    data[7] ^= 1
    state = (place / "model.gguf").stat()
    (place / "model.gguf").write_bytes(data)
    os.utime(place / "model.gguf", ns=(state.st_atime_ns, state.st_mtime_ns))
    name = f"lab/tiny/{OLD}"
    assert rows(root)[name]["check"]["ok"]  # the same size, time and inode
    deep = rows(root, check="deep")[name]["check"]
    assert deep == {"ok": False, "missing": [], "changed": ["model.gguf"]}
    (place / "model.gguf").unlink()
    assert rows(root)[name]["check"] == {"ok": False, "missing": ["model.gguf"], "changed": []}
    (place / store.MANIFEST).unlink()
    assert rows(root)[name]["check"]["ok"] is None


def test_files_that_stay_in_a_library_are_there(root: Path, tmp_path: Path) -> None:
    """The stamp has two figures for them: weights_library.py."""
    place = snapshot(root, f"lab/tiny/{OLD}")
    shelf = tmp_path / "model.gguf"
    (place / "model.gguf").rename(shelf)
    (place / "model.gguf").symlink_to(shelf)
    info = shelf.stat()
    stat = [info.st_size, info.st_mtime_ns]
    (place / store.STAMP).write_text(json.dumps({"files": {"model.gguf": {"stat": stat}}}))
    assert store.by_manifest(place, False, str(LIB))["ok"]
    shelf.write_bytes(b"x")
    assert store.by_manifest(place, False, str(LIB))["changed"] == ["model.gguf"]
    shelf.unlink()
    assert store.by_manifest(place, False, str(LIB))["missing"] == ["model.gguf"]


def test_recipes_claim_and_the_agent_judges(root: Path) -> None:
    place = snapshot(root, f"lab/tiny/{OLD}")
    wanted = {"names": ["tiny"], "spec": {
        "dir": str(place), "repo": "lab/tiny", "commit": OLD * 3 + "aaaa",
        "files": [{"path": "other.gguf", "size": 3, "sha256": "0" * 64}]}}  # fmt: skip
    absent = str(root / f"lab/two/{NEW}")
    found = store.look(spec(root, recipes={str(place): wanted, absent: wanted}))
    (row,) = found["snapshots"]
    assert row["claims"] == [{"by": "recipe", "name": "tiny"}]
    assert (row["check"]["ok"], row["check"]["missing"]) == (False, ["other.gguf"])
    assert found["absent"] == [absent]
    # Programs of another version there: not known, rather than well or wrong.
    row = rows(root, recipes={str(place): wanted}, lib="/nowhere")[f"lab/tiny/{OLD}"]
    assert row["check"]["ok"] is None


# --- prune ---


@pytest.fixture
def three(root: Path) -> list[Path]:
    """Three snapshots, the least recently used last by name."""
    times = {"c": NOW, "a": NOW + 100, "b": NOW + 200}
    return [snapshot(root, f"lab/{name}/{name * 12}", used) for name, used in times.items()]


def chosen(root: Path, now: float = NOW + 1000, **changes: Any) -> list[str]:
    return [Path(name).name[0] for name in prune.prune(spec(root, **changes), now)["chosen"]]


def test_the_least_recently_used_goes_first(root: Path, three: list[Path]) -> None:
    assert chosen(root) == ["c", "a", "b"]
    assert chosen(root, older_s=850) == ["c", "a"]
    assert chosen(root, pins=["lab/a"]) == ["c", "b"]
    assert chosen(root, want_free=1) == []  # others write to this disk as well
    assert chosen(root, want_free=10**18) == ["c", "a", "b"]
    said = {
        "free": 100,
        "snapshots": [
            {"directory": n, "claims": [], "last_use": i, "frees": 50} for i, n in enumerate("xyz")
        ],
    }
    few = prune.choose(said, spec(root, want_free=180), NOW)
    assert [row["directory"] for row in few] == ["x", "y"]
    assert all(place.exists() for place in three)


def test_only_apply_removes(root: Path, three: list[Path]) -> None:
    before = sorted(root.rglob("*"))
    assert prune.prune(spec(root), NOW)["removed"] == []
    assert sorted(root.rglob("*")) == before
    done = prune.prune(spec(root, apply=True, pins=["lab/a"]), NOW)
    assert [row["why"] for row in done["removed"]] == ["", ""]
    assert [place.exists() for place in three] == [False, True, False]
    assert sorted(path.name for path in root.iterdir()) == ["lab"]
    assert [path.name for path in (root / "lab").iterdir()] == ["a"]


def test_the_root_stays(root: Path) -> None:
    snapshot(root, f"gpt2/{NEW}")
    prune.prune(spec(root, apply=True), NOW)
    assert list(root.iterdir()) == []
    assert root.is_dir()


def test_a_snapshot_that_is_being_fetched_stays(root: Path) -> None:
    place = snapshot(root, f"lab/tiny/{OLD}")
    with (place / store.LOCK).open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(prune.Refused, match="a weights job is at work"):
            prune.remove(root, place, spec(root))
    assert place.exists()


def test_links_lead_nowhere(root: Path, tmp_path: Path) -> None:
    """Neither a link inside of a snapshot nor one on the way to it takes anything with it."""
    outside = snapshot(tmp_path / "outside", f"x/{OLD}")
    place = snapshot(root, f"lab/tiny/{OLD}")
    (place / "out").symlink_to(outside)
    (place / "file").symlink_to(outside / "model.gguf")
    prune.prune(spec(root, apply=True), NOW)
    assert not place.exists()
    assert (outside / "model.gguf").exists()
    (root / "x").symlink_to(outside.parent)
    with pytest.raises(OSError, match="Not a directory"):
        prune.remove(root, root / "x" / OLD, spec(root))
    assert (outside / "model.gguf").exists()


@pytest.mark.parametrize("name", ["../outside/x", "..", "lab"])
def test_what_is_no_snapshot_is_never_removed(root: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "outside/x").mkdir(parents=True)
    (root / "lab").mkdir()
    with pytest.raises(prune.Refused):
        prune.remove(root, root / name, spec(root))
    assert (tmp_path / "outside/x").exists()


def test_a_file_that_a_bundle_holds_frees_nothing(root: Path, tmp_path: Path) -> None:
    place = snapshot(root, f"lab/tiny/{OLD}", size=50_000)
    alone = rows(root)[f"lab/tiny/{OLD}"]["frees"]
    os.link(place / "model.gguf", tmp_path / "held")
    shared = rows(root)[f"lab/tiny/{OLD}"]["frees"]
    assert alone - shared >= 600_000
    os.link(place / "model.gguf", place / "twice")
    (tmp_path / "held").unlink()
    assert rows(root)[f"lab/tiny/{OLD}"]["frees"] >= alone


def test_a_prune_that_was_cut_is_finished(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = snapshot(root, f"lab/tiny/{OLD}")

    def die(*words: Any, **more: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(prune.shutil, "rmtree", die)
        with pytest.raises(KeyboardInterrupt):
            prune.prune(spec(root, apply=True), NOW)
    left = place.with_name(f".sparkwright-prune-{OLD}")
    assert left.exists()
    assert store.look(spec(root))["cut"] == [str(left)]
    assert prune.prune(spec(root), NOW)["removed"] == []
    assert left.exists()
    prune.prune(spec(root, apply=True), NOW)
    assert list(root.iterdir()) == []


def test_a_file_system_that_is_mounted_in_it_stays(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = snapshot(root, f"lab/tiny/{OLD}")
    real = store.measure
    monkeypatch.setattr(store, "measure", lambda p: {**real(p), "mounted": True})
    done = prune.prune(spec(root, apply=True), NOW)
    assert [row["why"] for row in done["removed"]] == ["another file system is mounted in it"]
    assert place.exists()


def test_who_comes_meanwhile_keeps_it(root: Path, tmp_path: Path) -> None:
    place = snapshot(root, f"lab/tiny/{OLD}")
    said = spec(root, apply=True)
    (tmp_path / "units/late.service").write_text(str(place))
    with pytest.raises(prune.Refused, match=r"is used by late\.service"):
        prune.remove(root, place, said)
    assert (place / "model.gguf").exists()


def test_the_programs_print_one_object(root: Path) -> None:
    snapshot(root, f"lab/tiny/{OLD}", time.time())
    for name in ("weights_store.py", "weights_prune.py"):
        text = (LIB / name).read_text()
        words = [sys.executable, "-c", text, json.dumps(spec(root))]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        assert json.loads(done.stdout)["snapshots"][0]["commit"] == OLD
