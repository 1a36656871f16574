"""Where each artifact comes from with each of the three words; upstream leaves all as it is."""

from __future__ import annotations

import dataclasses
import json
import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pysequoia
import pytest

from sparkwright import hub_client, sources, uv_client
from sparkwright.artifacts import Artifact, Lock
from sparkwright.cuda import PIN, SOURCES, Repository, install, pin_text, plan
from sparkwright.errors import SparkwrightError
from sparkwright.preflight_seen import places
from sparkwright.resources import File
from sparkwright.sources import UPSTREAM, Source, placed, source_of
from sparkwright.sources_apt import apt_files, armoured, sources_text
from sparkwright.system import Packages
from sparkwright.weights_plan import plan as weights_plan
from sparkwright.weights_plan import spec_of
from tests.unit.machine_case import DIRECTORY, HASH, WEIGHTS, data

URL = "http://files.example.lan:8080/bundle"
MIRROR = Source("mirror", URL, URL)
BUNDLE = Source("bundle", "file:///srv/sparkwright/bundle", "/media/usb/bundle")
ITEMS = {
    "archive": Artifact("llama.cpp-source", "archive", url="https://x.example/a/b1+2.tar.gz"),
    "file": Artifact("voc", "file", url="https://x.example/enc/o200k.tiktoken?download=1"),
    "wheel": Artifact("vllm-wheel", "wheel", url="https://x.example/v1/vllm-1%2Bcu130-any.whl"),
    "apt": Artifact("cuda-repo", "apt", url="https://x.example/repos/sbsa/"),
}
PATHS = {
    "archive": "files/llama.cpp-source/b1%2B2.tar.gz",
    "file": "files/voc/o200k.tiktoken",
    "wheel": "wheels/vllm-1%2Bcu130-any.whl",
    "apt": "apt",
}


def test_the_source_comes_from_the_machines_data() -> None:
    assert source_of(data()) == source_of({}) == UPSTREAM
    assert source_of(data(artifacts_from="mirror", artifacts_url=URL + "/")) == MIRROR
    settings = data(artifacts_from="bundle", artifacts_path="/media/usb/bundle")
    assert source_of(settings) == BUNDLE
    assert BUNDLE.directory == "/srv/sparkwright/bundle"
    assert MIRROR.directory == UPSTREAM.directory == ""


@pytest.mark.parametrize("kind", ITEMS)
def test_every_kind_has_its_place_in_the_tree(kind: str) -> None:
    assert UPSTREAM.url(ITEMS[kind]) == ITEMS[kind].url
    assert MIRROR.url(ITEMS[kind]) == f"{URL}/{PATHS[kind]}"
    assert BUNDLE.url(ITEMS[kind]) == f"file:///srv/sparkwright/bundle/{PATHS[kind]}"


def test_upstream_is_the_lock_itself() -> None:
    lock = Lock(Path("artifacts.lock.yaml"), "https://hub.example", ITEMS, {})
    assert placed(lock, UPSTREAM) is lock
    assert (UPSTREAM.index(), UPSTREAM.only()) == (None, None)
    there = placed(lock, MIRROR)
    assert there.hub == f"{URL}/hub"
    assert [there.artifacts[name].url for name in ITEMS] == [f"{URL}/{PATHS[k]}" for k in ITEMS]


def test_an_image_is_the_bundles_archive(tmp_path: Path) -> None:
    entry = {"path": "images/lab.tar", "size": 7, "sha256": HASH}
    (tmp_path / "MANIFEST.json").write_text(json.dumps({"files": [entry]}))
    image = Artifact("lab", "image", ref="r", digest="sha256:1", platform="linux/arm64", size=5)
    source = dataclasses.replace(BUNDLE, origin=str(tmp_path))
    found = source.image(image)
    assert found is not None
    assert vars(found) == {
        "url": "file:///srv/sparkwright/bundle/images/lab.tar",
        "size": 7,
        "sha256": HASH,
    }
    other = source.image(dataclasses.replace(image, name="other"))
    assert other is not None
    assert other.sha256 == "not in the bundle"


def test_a_mirror_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(SparkwrightError, match=r"MANIFEST\.json: cannot be read here"):
        sources.manifest_of(dataclasses.replace(BUNDLE, origin=str(tmp_path)))


def test_apt_reads_one_file_with_its_key_inside() -> None:
    text = sources_text(BUNDLE, "-----BEGIN X-----\n\nabc=\n-----END X-----\n")
    assert text.splitlines()[1:] == [
        "Types: deb",
        "URIs: file:///srv/sparkwright/bundle/apt",
        "Suites: ./",
        "Signed-By:",
        " -----BEGIN X-----",
        " .",
        " abc=",
        " -----END X-----",
    ]
    assert apt_files(data()) == []
    only = Packages({"a": None}, BUNDLE.only()).fix([{"versions": {}}])[0].shell
    assert only.endswith("apt_install.py --only /etc/apt/sparkwright-bundle.sources a")
    assert " --only " not in Packages({"a": None}).fix([{"versions": {}}])[0].shell


def test_a_mirror_wants_the_fleets_key(tmp_path: Path) -> None:
    settings = data(artifacts_from="mirror", artifacts_url=URL, artifacts_key=f"{tmp_path}/k.asc")
    with pytest.raises(SparkwrightError, match=r"k\.asc: is not there"):
        apt_files(settings)
    (tmp_path / "k.asc").write_text("no key")
    with pytest.raises(SparkwrightError, match=r"k\.asc: is no key"):
        apt_files(settings)


def test_no_backtrace_is_kept_of_a_key_that_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its library would walk up a greenlet's stack, which ended a converge with SIGSEGV."""
    monkeypatch.setenv("RUST_BACKTRACE", "1")
    monkeypatch.delenv("RUST_LIB_BACKTRACE", raising=False)
    key = tmp_path / "k.asc"
    key.write_text(str(pysequoia.Tsk.generate("x")))
    assert "BEGIN PGP" in armoured(key)
    assert os.environ["RUST_LIB_BACKTRACE"] == "0"


def test_an_expired_key_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = tmp_path / "k.asc"
    key.write_text(str(pysequoia.Tsk.generate("x", validity_seconds=86_400)))
    settings = data(artifacts_from="mirror", artifacts_url=URL, artifacts_key=str(key))
    assert "BEGIN PGP" in apt_files(settings)[0].content
    armoured.cache_clear()

    class Later(datetime):
        @classmethod
        def now(cls, tz: object = None) -> Later:
            return cls.fromtimestamp(time.time() + 90_000, UTC)

    monkeypatch.setattr("sparkwright.sources_apt.datetime", Later)
    with pytest.raises(SparkwrightError, match=r"k\.asc: the key expired 2"):
        apt_files(settings)


def test_cuda_from_a_bundle_takes_no_repository_of_nvidias() -> None:
    only = Repository("u", "F" * 40, "k", HASH, {"cuda-nvcc-13-0": "1"}, "/etc/apt/x.sources")
    text = "\n".join(command.shell for command in install(only))
    assert "apt_install.py --only /etc/apt/x.sources cuda-nvcc-13-0=1" in text
    assert "fetch.py" not in text
    assert "apt_key.py" not in text
    pin = File(PIN, pin_text(only))
    have: list[dict[str, Any]] = [
        {"rc": 0, "out": "/usr/local/cuda/bin/nvcc 13.0.88\n"},
        {"type": "file", "owner": "root", "group": "root", "mode": "0644", "sha256": _sha(pin)},
        {"type": "missing"},
        {"type": "missing"},
        {},
        {"versions": {"cuda-nvcc-13-0": "1"}},
    ]
    assert plan(only, "13.0", have).drift == ()
    have[2] = {"type": "file"}
    assert plan(only, "13.0", have).drift == (f"{SOURCES}: is still there",)


def _sha(file: File) -> str:
    import hashlib

    return hashlib.sha256(file.content.encode()).hexdigest()


@pytest.mark.parametrize("client", [hub_client, uv_client])
def test_an_index_changes_no_environments_name(client: Any) -> None:
    states: list[dict[str, Any]] = [{"out": "Python 3.12.3"}, {}, {}, {}]
    plain = client.plan("/p", HASH, states).job
    there = client.plan("/p", HASH, states, index=f"{URL}/simple/").job
    assert "index" not in plain.spec
    assert there.spec == {**plain.spec, "index": f"{URL}/simple/"}
    assert there.digest == plain.digest


LOST = [{"out": json.dumps({"ok": False, "manifest_digest": "", "missing": ["tiny.gguf"],
                            "changed": [], "leftovers": {}})}]  # fmt: skip


def test_weights_of_a_bundle_are_linked_and_those_of_a_mirror_fetched() -> None:
    settings = data(artifacts_from="bundle", artifacts_path="/b")
    spec = spec_of(WEIGHTS, settings, "file:///srv/sparkwright/bundle/hub")
    held = f"/srv/sparkwright/bundle/hub/lab/tiny/resolve/{WEIGHTS.snapshot.commit}"
    assert (spec["plain"], spec["held"]) == (True, held)
    link = weights_plan(WEIGHTS, spec, "llm", None, LOST).before[1]
    assert link.shell.endswith(f"weights_link.py {held} {DIRECTORY} llm")
    assert link.stdin == '["tiny.gguf"]'
    spec = spec_of(WEIGHTS, data(artifacts_from="mirror", artifacts_url=URL), f"{URL}/hub")
    assert spec["plain"]
    assert "held" not in spec
    assert len(weights_plan(WEIGHTS, spec, "llm", None, LOST).before) == 1


def test_what_a_push_brought_takes_no_room_a_second_time() -> None:
    assert places(data(), WEIGHTS) == [DIRECTORY]
    settings = data(artifacts_from="bundle", artifacts_path="/b")
    held = f"/srv/sparkwright/bundle/hub/lab/tiny/resolve/{WEIGHTS.snapshot.commit}"
    assert places(settings, WEIGHTS) == [DIRECTORY, held]
