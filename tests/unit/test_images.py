"""Images: what a machine needs, when there is nothing to do, and what the lock says of them."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from sparkwright import image_needs, images
from sparkwright.artifacts import Artifact, load_lock
from sparkwright.digest import digest
from sparkwright.errors import SparkwrightError
from sparkwright.lock_images import resolve_image
from sparkwright.lock_text import dump
from sparkwright.recipe_types import Container
from sparkwright.registry import Found
from tests.unit.container_case import ARCHIVE, DIGEST, ID, IMAGE, LLAMA, WEB, image_states, served
from tests.unit.machine_case import ITEM, data

WANTED = image_needs.wanted([served()], {"lab-image": IMAGE}, data())[0]
NAME = digest(images.inputs(WANTED))
RECORD = {"image": WANTED.named, "id": ID, "inputs": NAME}
PATH = f"/var/lib/sparkwright/images/{'d1' * 32}.json"


def drift(**states: Any) -> list[str]:
    return list(images.plan(WANTED, image_states(**states)).drift)


def test_a_machine_without_containers_needs_no_image() -> None:
    assert image_needs.users([ITEM]) == {}
    assert image_needs.wanted([ITEM], {}, data()) == []


@pytest.mark.parametrize(
    "found", [{"digest": True}, {"ids": (ID,)}, {"digest": True, "ids": (ID,)}]
)
def test_an_image_with_its_record_is_left_alone(found: dict[str, Any]) -> None:
    assert drift(record=RECORD, **found) == []


def test_an_absent_image_is_a_job_whatever_the_record_says() -> None:
    for record in (None, RECORD):
        plan = images.plan(WANTED, image_states(record=record, ids=("sha256:other",)))
        assert plan.drift == (f"image {WANTED.named}: not on the machine",)
        assert plan.job is not None
        assert plan.job.stamp == PATH
        assert plan.job.digest == NAME


@pytest.mark.parametrize("record", [None, {**RECORD, "inputs": "0" * 12}, {"id": ID}])
def test_an_image_without_its_record_is_asked_again(record: dict[str, Any] | None) -> None:
    told = f"image {WANTED.named}: {PATH} does not vouch for it"
    assert drift(record=record, digest=True) == [told]


def test_a_record_that_is_no_json_vouches_for_nothing() -> None:
    states = image_states(digest=True)
    states[0] = {"type": "file", "text": '{"inputs": "' + NAME}
    assert len(images.plan(WANTED, states).drift) == 1


def test_an_image_from_a_file_is_known_by_its_record_where_the_lock_has_no_id() -> None:
    image = dataclasses.replace(IMAGE, image_id=None, archive=ARCHIVE)
    states = image_states(record=RECORD, ids=(ID,))
    assert images.found(image, states).reference == ID
    other = image_states(record={**RECORD, "image": "another@sha256:1"}, ids=(ID,))
    assert images.found(image, other).reference == "absent"


def test_the_job_gets_everything_and_the_id_that_was_known() -> None:
    wanted = dataclasses.replace(WANTED, image=dataclasses.replace(IMAGE, archive=ARCHIVE))
    job = images.plan(wanted, image_states(record=RECORD)).job
    assert job is not None
    item = images.item_of(WANTED)
    assert item is not None
    assert job.spec == {
        "image": f"docker.io/lab/llama@{DIGEST}", "image_id": ID, "known_id": ID,
        "platform": "linux/arm64", "size": 1000, "archive": vars(ARCHIVE), "asks": "llama.cpp",
        "program": "/app/llama-server", "work": "/srv/sparkwright/images", "stall_s": 300,
        "keep": 2, "stay": [f"{'d1' * 32}.json"], "user": "llm",
        "copy": item.place,
    }  # fmt: skip


@pytest.mark.parametrize(
    "changes",
    [
        {"asks": "vllm"},
        {"program": "/bin/llama-server"},
        {"image": dataclasses.replace(IMAGE, archive=ARCHIVE)},
        {"image": dataclasses.replace(IMAGE, platform="linux/amd64")},
        {"image": dataclasses.replace(IMAGE, image_id=None)},
    ],
)
def test_what_a_record_depends_on_changes_its_digest(changes: dict[str, Any]) -> None:
    assert digest(images.inputs(dataclasses.replace(WANTED, **changes))) != NAME


def test_what_is_kept_and_where_it_lies_asks_nothing_again() -> None:
    other = dataclasses.replace(WANTED, keep=9, stay=(), data_dir="/x", stall_s=1)
    assert digest(images.inputs(other)) == NAME


VLLM = Container("lab-image", "vllm", (), 0, {}, "/health")
OTHER = Container("lab-image", "openai", ("python3", "-m", "sglang"), 0, {}, "/health")


@pytest.mark.parametrize(
    ("containers", "asked"),
    [
        ([LLAMA], ("llama.cpp", "/app/llama-server")),
        ([VLLM], ("vllm", "python3")),
        ([OTHER], ("", "")),
        ([WEB], ("", "")),
        ([WEB, VLLM], ("vllm", "python3")),
    ],
)
def test_an_image_is_asked_about_what_runs_in_it(
    containers: list[Container], asked: tuple[str, str]
) -> None:
    assert image_needs.asks([served(container) for container in containers]) == asked


# --- in the lock ---

LOCK = """\
format: 1
hub: https://hub.example
artifacts:
  lab-image:
    kind: image
    ref: docker.io/vllm/vllm-openai
    tag: v0.33.0
    platform: linux/arm64
snapshots: {}
"""
RESOLVED = f"    digest: {DIGEST}\n    size: 5\n    image_id: {ID}\n    cuda_min: '13.0'\n"
FILE = f"    archive: {{url: 'https://m.example/i.tar', size: 7, sha256: '{'ab' * 32}'}}\n"


def lock_of(tmp_path: Path, more: str = "", base: str = LOCK) -> Path:
    path = tmp_path / "lock.yaml"
    path.write_text(base.replace("snapshots", f"{more}snapshots"))
    return path


def test_an_unresolved_image_says_what_is_missing(tmp_path: Path) -> None:
    lock = load_lock(lock_of(tmp_path))
    with pytest.raises(SparkwrightError) as error:
        lock.artifact("lab-image")
    assert str(error.value) == (
        "lock.yaml: artifacts/lab-image: digest and size not known yet; run: sparkwright lock"
    )


def test_an_image_with_its_file_is_read_and_written_the_same(tmp_path: Path) -> None:
    lock = load_lock(lock_of(tmp_path, RESOLVED + FILE))
    image = lock.artifact("lab-image")
    assert (image.digest, image.cuda_min, image.archive and image.archive.size) == (
        DIGEST, "13.0", 7,
    )  # fmt: skip
    (tmp_path / "again.yaml").write_text(dump(lock))
    assert load_lock(tmp_path / "again.yaml").artifacts == lock.artifacts


@pytest.mark.parametrize(
    ("line", "wrong", "told"),
    [
        ("ref: docker.io/vllm/vllm-openai", "ref: vllm/vllm-openai", "ref: must be registry/"),
        ("ref: docker.io/vllm/vllm-openai", "ref: docker.io/a:tag", "ref: must be registry/"),
        ("tag: v0.33.0", "tag: 'a b'", 'tag: "a b" is no tag'),
        ("platform: linux/arm64", "platform: arm64", "platform: must be linux/arm64"),
        ("tag: v0.33.0", "digest: sha256:1", "digest: must be sha256: and 64"),
        ("tag: v0.33.0", "cuda_min: '13'", "cuda_min: must be a version"),
        ("tag: v0.33.0", "packages: {}", "unknown key packages"),
        ("tag: v0.33.0", "archive: {url: 'x', size: 0}", "archive/url: must be an http(s)"),
    ],
)  # fmt: skip
def test_bad_lines_are_named(tmp_path: Path, line: str, wrong: str, told: str) -> None:
    with pytest.raises(SparkwrightError) as error:
        load_lock(lock_of(tmp_path, base=LOCK.replace(line, wrong)))
    assert str(error.value).startswith("lock.yaml: artifacts/lab-image")
    assert told in str(error.value)


def test_a_container_needs_an_artifact_of_kind_image(tmp_path: Path) -> None:
    head, _, tail = LOCK.partition("image\n")
    file = f"file\n    url: http://a/b\n    size: 1\n    sha256: {'ab' * 32}\n"
    text = head + file + tail[tail.index("snapshots") :]
    lock = load_lock(lock_of(tmp_path, base=text))
    with pytest.raises(SparkwrightError, match="is of kind file; a container needs an image"):
        image_needs.artifacts([served()], lock)


class FakeRegistry:
    """Stands for a registry: one answer, and what was asked."""

    def __init__(self, digest: str) -> None:
        self.answer = Found(digest, 42, ID, "13.0")
        self.asked: list[tuple[str, str, str]] = []

    def find(self, ref: str, tag: str, platform: str) -> Found:
        self.asked.append((ref, tag, platform))
        return self.answer


BARE = Artifact("a", "image", ref="docker.io/a/b", tag="v1", platform="linux/arm64")
MOVED = f"sha256:{'e2' * 32}"


def test_a_tag_is_resolved_once(tmp_path: Path) -> None:
    registry = FakeRegistry(DIGEST)
    found = resolve_image(BARE, registry, update=False)
    assert registry.asked == [("docker.io/a/b", "v1", "linux/arm64")]
    assert (found.digest, found.size, found.image_id, found.cuda_min) == (DIGEST, 42, ID, "13.0")
    assert resolve_image(found, registry, update=False) is found
    assert len(registry.asked) == 1


def test_a_moved_tag_is_followed_only_when_asked_and_leaves_the_old_file_behind() -> None:
    old = dataclasses.replace(BARE, digest=DIGEST, size=1, archive=ARCHIVE, cuda_min_driver="590.1")
    registry = FakeRegistry(MOVED)
    assert resolve_image(old, registry, update=False) is old
    new = resolve_image(old, registry, update=True)
    assert (new.digest, new.archive, new.cuda_min_driver) == (MOVED, None, None)
    silent = FakeRegistry(MOVED)
    silent.answer = dataclasses.replace(silent.answer, cuda_min=None)
    told = dataclasses.replace(old, cuda_min="12.8")
    assert resolve_image(told, silent, update=True).cuda_min is None
    silent.answer = dataclasses.replace(silent.answer, digest=DIGEST)
    assert resolve_image(told, silent, update=True).cuda_min == "12.8"
    same = resolve_image(old, FakeRegistry(DIGEST), update=True)
    assert (same.archive, same.cuda_min_driver) == (ARCHIVE, "590.1")


def test_a_digest_is_asked_for_itself_and_an_index_is_named() -> None:
    known = dataclasses.replace(BARE, tag=None, digest=DIGEST)
    registry = FakeRegistry(DIGEST)
    assert resolve_image(known, registry, update=True).size == 42
    assert registry.asked == [("docker.io/a/b", DIGEST, "linux/arm64")]
    with pytest.raises(SparkwrightError, match=f"{DIGEST} is an index, {MOVED} is its image"):
        resolve_image(known, FakeRegistry(MOVED), update=False)


def test_what_cannot_be_asked_is_left_or_named() -> None:
    registry = FakeRegistry(DIGEST)
    nameless = dataclasses.replace(BARE, platform=None)
    assert resolve_image(nameless, registry, update=True) is nameless
    with pytest.raises(SparkwrightError, match="neither tag nor digest; add a tag"):
        resolve_image(dataclasses.replace(BARE, tag=None), registry, update=False)
    assert registry.asked == []
