"""load_image.py on a machine: pulled or loaded, checked, and vouched for last."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.unit.container_case import DIGEST, ID
from tests.unit.fake_docker import Engine, command, engine
from tests.unit.machine_case import program

NAMED = f"docker.io/lab/llama@{DIGEST}"
THERE = {"Id": ID, "Os": "linux", "Architecture": "arm64"}
DONE = [
    {"status": "Downloading", "id": "a", "progressDetail": {"current": 10, "total": 40}},
    {"status": "Downloading", "id": "b", "progressDetail": {"current": 5, "total": 5}},
    {"status": "Extracting", "id": "a", "progressDetail": {"current": 1}},
]


class Machine:
    """load_image.py with a fake engine, and a spec."""

    def __init__(self, folder: Path, found: Engine) -> None:
        self.folder, self.engine = folder, found
        self.record = folder / "images" / "record.json"
        self.calls = command(folder / "bin", "exit 0")
        self.spec: dict[str, Any] = {
            "image": NAMED, "image_id": ID, "known_id": "", "platform": "linux/arm64",
            "size": 100, "archive": None, "work": str(folder / "work"), "stall_s": 5, "asks": "",
            "program": "", "keep": 2, "stay": [self.record.name], "stamp": str(self.record),
            "progress": str(folder / "progress"), "digest": "abc",
        }  # fmt: skip

    def run(self, load: ModuleType, **changes: Any) -> int:
        path = self.folder / "spec.json"
        path.write_text(json.dumps({**self.spec, **changes}))
        return int(load.main([str(path)]))

    def message(self) -> str:
        return str(json.loads((self.folder / "progress").read_text())["message"])


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    for name in ("alone", "fetch", "docker_api", "introspect_image", "spread_tree", "spread_image"):
        program(name)
    return program("load_image")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, load: ModuleType) -> Iterator[Machine]:
    monkeypatch.setattr(load.docker_api, "SOCKET", str(tmp_path / "docker.sock"))
    monkeypatch.setattr(load.docker_api, "CREDENTIALS", tmp_path / "config.json")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    with engine(tmp_path / "docker.sock") as found:
        found.events, found.arrives = DONE, {NAMED: THERE}
        yield Machine(tmp_path, found)


def test_what_is_there_is_not_fetched_and_gets_its_record(
    machine: Machine, load: ModuleType
) -> None:
    machine.engine.images = {NAMED: THERE}
    assert machine.run(load) == 0
    assert machine.engine.calls == []
    record = json.loads(machine.record.read_text())
    assert record == {"inputs": "abc", "image": NAMED, "id": ID, "facts": None}


def test_a_pull_names_digest_and_platform_and_counts_bytes(
    machine: Machine, load: ModuleType
) -> None:
    told: list[tuple[int, str]] = []
    load.docker_api.pull(NAMED, "linux/arm64", 5, lambda done, phase: told.append((done, phase)))
    assert told == [(10, "pulling"), (15, "pulling"), (15, "unpacking")]
    path, query, headers, _ = machine.engine.calls[0]
    assert path == "/images/create"
    assert query == {
        "fromImage": ["docker.io/lab/llama"], "tag": [DIGEST], "platform": ["linux/arm64"],
    }  # fmt: skip
    assert "X-Registry-Auth" not in headers
    assert machine.run(load) == 0


def test_root_s_login_goes_to_its_own_registry_only(machine: Machine, load: ModuleType) -> None:
    packed = base64.b64encode(b"me:secret").decode()
    place = machine.folder / "config.json"
    place.write_text(json.dumps({"auths": {"nvcr.io": {"auth": packed}}}))
    assert load.docker_api.credentials("docker.io/a/b", place) == ""
    value = json.loads(base64.urlsafe_b64decode(load.docker_api.credentials("nvcr.io/a", place)))
    assert value == {"username": "me", "password": "secret", "serveraddress": "nvcr.io"}


@pytest.mark.parametrize(
    ("trouble", "told"),
    [
        ({"events": [{"error": "manifest unknown"}], "arrives": {}}, "manifest unknown"),
        ({"refusal": "toomanyrequests"}, "toomanyrequests"),
        ({"events": [], "arrives": {}}, "docker does not have it although it reported success"),
        ({"arrives": {NAMED: {**THERE, "Architecture": "amd64"}}},
         "is for linux/amd64, the lock says linux/arm64"),
        ({"arrives": {NAMED: {**THERE, "Id": "sha256:2"}}}, f"has id sha256:2, the lock says {ID}"),
    ],
)  # fmt: skip
def test_what_goes_wrong_is_said_and_leaves_no_record(
    machine: Machine, load: ModuleType, trouble: dict[str, Any], told: str
) -> None:
    for name, value in trouble.items():
        setattr(machine.engine, name, value)
    assert machine.run(load) == 1
    assert machine.message() == f"{NAMED}: {told}"
    assert not machine.record.exists()


def test_a_pull_that_stands_still_ends(machine: Machine, load: ModuleType) -> None:
    machine.engine.stalls = True
    assert machine.run(load, stall_s=0.3) == 1
    assert machine.message() == f"{NAMED}: no byte and no step for 0.3 s"


def test_an_engine_that_is_not_there_is_said(machine: Machine, load: ModuleType) -> None:
    load.docker_api.SOCKET = str(machine.folder / "nobody")
    assert machine.run(load) == 1
    assert "No such file or directory" in machine.message()


def test_containerds_ids_are_of_another_kind(machine: Machine, load: ModuleType) -> None:
    machine.engine.arrives = {NAMED: {**THERE, "Id": DIGEST, "Descriptor": {"digest": DIGEST}}}
    assert machine.run(load) == 0
    assert json.loads(machine.record.read_text())["id"] == DIGEST


def test_containerds_ids_are_known_where_the_engine_has_no_descriptor(
    machine: Machine, load: ModuleType
) -> None:
    """As Docker 26.1.5 answers."""
    machine.engine.arrives = {NAMED: {**THERE, "Id": DIGEST}}
    machine.engine.status = [["driver-type", "io.containerd.snapshotter.v1"]]
    assert machine.run(load) == 0
    machine.engine.status, machine.engine.images = [["Backing Filesystem", "extfs"]], {}
    assert machine.run(load) == 1
    assert machine.message() == f"{NAMED}: has id {DIGEST}, the lock says {ID}"


def archive(machine: Machine) -> dict[str, Any]:
    content = b"an image" * 100
    place = machine.folder / "work"
    place.mkdir()
    sha = hashlib.sha256(content).hexdigest()
    (place / f"{sha}.tar").write_bytes(content)
    return {"url": "http://127.0.0.1:1/i.tar", "size": len(content), "sha256": sha}


def test_an_archive_is_loaded_and_goes(machine: Machine, load: ModuleType) -> None:
    given = archive(machine)
    machine.engine.events = [{"stream": f"Loaded image ID: {ID}\n"}]
    machine.engine.arrives = {ID: THERE}
    assert machine.run(load, archive=given) == 0
    path, _, _, size = machine.engine.calls[0]
    assert (path, size) == ("/images/load", given["size"])
    assert list((machine.folder / "work").iterdir()) == []
    # Seen again, by the id of the lock, or of the last record: nothing is brought.
    assert machine.run(load, archive=given) == 0
    assert machine.run(load, archive=given, image_id=None, known_id=ID) == 0
    assert len(machine.engine.calls) == 1


def test_an_archive_of_two_images_is_refused(machine: Machine, load: ModuleType) -> None:
    given = archive(machine)
    machine.engine.events = [{"stream": "Loaded image: a:1\nLoaded image: b:1\n"}]
    assert machine.run(load, archive=given) == 1
    assert "2 images are in the archive, one is wanted" in machine.message()


def old(machine: Machine, name: str, id: str, age: int) -> Path:
    path = machine.record.with_name(f"{name}.json")
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"id": id}))
    os.utime(path, (1000 - age, 1000 - age))
    return path


def test_old_images_of_ours_go_all_but_the_newest(machine: Machine, load: ModuleType) -> None:
    machine.engine.images = {NAMED: THERE}
    kept, gone = old(machine, "a", "sha256:a", 1), old(machine, "b", "sha256:b", 2)
    stays = old(machine, "c", "sha256:c", 9)
    again = old(machine, "d", ID, 10)
    names = [machine.record.name, stays.name]
    assert machine.run(load, stay=names) == 0
    assert machine.calls.read_text().splitlines() == ["image rm sha256:b"]
    assert [path.exists() for path in (kept, gone, stays, again)] == [True, False, True, False]


def test_an_image_that_a_container_uses_keeps_its_record(
    machine: Machine, load: ModuleType
) -> None:
    machine.engine.images = {NAMED: THERE}
    old(machine, "a", "sha256:a", 1)
    used = old(machine, "b", "sha256:b", 2)
    command(machine.folder / "bin", "echo conflict: image is being used >&2; exit 1")
    assert machine.run(load) == 0
    assert used.exists()


HELP = "echo '--port PORT                             port to listen (env: LLAMA_ARG_PORT)'"


def test_an_image_is_asked_in_a_cage(machine: Machine, load: ModuleType) -> None:
    machine.engine.images = {NAMED: THERE}
    program_ = "/app/llama-server"
    calls = command(machine.folder / "bin", f'case "$*" in *--help) {HELP} ;; esac')
    assert machine.run(load, asks="llama.cpp", program=program_) == 0
    facts = json.loads(machine.record.read_text())["facts"]
    assert (facts["engine"], [*facts["flags"]]) == ("llama.cpp", ["port"])
    asked = calls.read_text().splitlines()[0]
    for words in (
        "run --rm --pull never --network none --read-only --cap-drop ALL",
        ID,
        "--user 65534:65534",
        "NVIDIA_VISIBLE_DEVICES=void",
        f"--entrypoint {program_}",
    ):
        assert words in asked


@pytest.mark.parametrize(("asks", "told"), [("vllm", "python3 in the image: "),
                                            ("llama.cpp", "/app/x in the image: ")])  # fmt: skip
def test_an_image_that_does_not_answer_gets_no_record(
    machine: Machine, load: ModuleType, asks: str, told: str
) -> None:
    machine.engine.images = {NAMED: THERE}
    command(machine.folder / "bin", "echo exec failed >&2; exit 127")
    assert machine.run(load, asks=asks, program="/app/x") == 1
    assert told in machine.message()
    assert "exec failed" in machine.message()
    assert not machine.record.exists()
