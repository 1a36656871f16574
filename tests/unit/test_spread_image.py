"""Images from other machines: exported, listed, received, proved and loaded; real servers."""

from __future__ import annotations

import dataclasses
import getpass
import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from sparkwright import image_copies, images, spread_wire
from sparkwright.image_copies import NoCopies
from sparkwright.resources import Command
from sparkwright.spread import Item
from tests.unit.container_case import ARCHIVE, DIGEST, ID, IMAGE
from tests.unit.fake_docker import Engine, command, engine
from tests.unit.hub_server import FakeHub
from tests.unit.machine_case import program
from tests.unit.spread_case import KEY, PORT, TOKEN, Machine
from tests.unit.test_images import NAME, RECORD, WANTED
from tests.unit.test_images import image_states as states_of
from tests.unit.weights_case import REPO

USER = getpass.getuser()
NAMED = f"docker.io/lab/llama@{DIGEST}"
CONFIG = json.dumps({"os": "linux", "rootfs": {"diff_ids": []}}).encode()
CONFIG_ID = f"sha256:{hashlib.sha256(CONFIG).hexdigest()}"
LAYER = os.urandom(2_000_001)
THERE = {"Id": CONFIG_ID, "Os": "linux", "Architecture": "arm64", "Size": len(LAYER)}


def export(*images: dict[str, Any], **files: bytes) -> bytes:
    """What `docker save` gives: a layer, a second name of it, a configuration, a manifest."""
    out = io.BytesIO()
    told = list(images) or [{"Config": "config.json", "Layers": ["one/layer.tar"]}]
    content = {"one/layer.tar": LAYER, "config.json": CONFIG,
               "manifest.json": json.dumps(told).encode(), **files}  # fmt: skip
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data in content.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode, entry.uid = len(data), 0o600, 4711
            tar.addfile(entry, io.BytesIO(data))
        entry = tarfile.TarInfo("two/layer.tar")
        entry.type, entry.linkname = tarfile.SYMTYPE, "../one/layer.tar"
        tar.addfile(entry)
    return out.getvalue()


class Site:
    """Two machines with one engine between them, which is told what each has."""

    def __init__(self, tmp: Path, hub: FakeHub, found: Engine) -> None:
        self.engine, self.program = found, program("spread_image")
        self.holder, self.taker = (Machine(tmp, number, hub) for number in (1, 2))
        for machine in (self.holder, self.taker):
            machine.serve()
        self.load = program("load_image")

    def place(self, machine: Machine) -> Path:
        return machine.top / "copies" / KEY / "tree"

    def offer(self, monkeypatch: pytest.MonkeyPatch, capsys: Any, code: int = 0) -> str:
        """The holder exports; what it prints."""
        self.place(self.holder).parent.mkdir(parents=True, exist_ok=True)
        item = self.holder.run / f"{KEY}.json"
        words = [self.place(self.holder), item, USER, NAMED, ID, self.holder.top / "record"]
        monkeypatch.setattr("sys.stdin", io.StringIO(f"{TOKEN}\n"))
        capsys.readouterr()
        assert self.program.main(["offer", *map(str, words)]) == code
        told = capsys.readouterr()
        return str(told.err if code else told.out).strip()

    def spec(self, listed: str) -> dict[str, Any]:
        item = self.taker.run / f"{KEY}.json"
        item.write_text(json.dumps({"token": TOKEN, "dirs": [], "packs": []}))
        peers = [[self.holder.name, [self.holder.address]]]
        spread = {"item": str(item), "key": KEY, "peers": peers, "port": PORT,
                  "go": str(self.taker.go), "manifest": listed}  # fmt: skip
        top = self.taker.top
        return {
            "spread": spread, "user": USER, "copy": str(self.place(self.taker)),
            "image_id": CONFIG_ID, "image": NAMED, "known_id": "", "platform": "linux/arm64",
            "size": 100, "archive": None, "work": str(top), "stall_s": 5, "asks": "",
            "program": "", "keep": 2, "stay": ["record.json"], "digest": "abc",
            "stamp": str(top / "images/record.json"), "progress": str(top / "progress"),
        }  # fmt: skip

    def take(self, listed: str, **changes: Any) -> int:
        """The taker's job."""
        path = self.taker.top / "spec.json"
        path.write_text(json.dumps({**self.spec(listed), **changes}))
        return int(self.load.main([str(path)]))

    def told(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads((self.taker.top / "progress").read_text())
        return value


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    names = ("alone", "fetch", "docker_api", "introspect_image", "spread_tree", "spread_image")
    loaded: dict[str, ModuleType] = {name: program(name) for name in names}
    monkeypatch.setattr(loaded["docker_api"], "SOCKET", str(tmp_path / "docker.sock"))
    monkeypatch.setattr(loaded["spread_tree"], "HOPELESS_S", 2.0)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    # The server's unit is looked for when a copy was loaded: here it runs, and no other program.
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/systemctl").write_text("#!/bin/sh\nexit ${NO_SERVER:-0}\n")
    (tmp_path / "bin/systemctl").chmod(0o755)
    command(tmp_path / "bin", "exit 0")
    with FakeHub(REPO, {}) as hub, engine(tmp_path / "docker.sock") as found:
        found.images, found.exports = {NAMED: THERE}, {CONFIG_ID: export()}
        made = Site(tmp_path, hub, found)
        try:
            yield made
        finally:
            made.holder.kill()
            made.taker.kill()


def test_an_image_is_exported_received_proved_and_loaded(
    site: Site, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    listed = site.offer(monkeypatch, capsys)
    assert len(listed) == 64
    site.engine.images = {}
    site.engine.arrives = {CONFIG_ID: THERE}
    site.engine.events = [{"stream": f"Loaded image ID: {CONFIG_ID}\n"}]
    assert site.take(listed) == 0, site.told()
    assert [path for path, *_ in site.engine.calls] == ["/images/load"]
    with tarfile.open(fileobj=io.BytesIO(site.engine.bodies[0])) as tar:
        names = {member.name.removeprefix("./"): member for member in tar}
        layer = tar.extractfile(names["one/layer.tar"])
        assert layer is not None
        assert layer.read() == LAYER
        assert names["two/layer.tar"].linkname == "../one/layer.tar"
    record = json.loads((site.taker.top / "images/record.json").read_text())
    assert record["id"] == CONFIG_ID
    # It stays for the others, readable by the server's account, for as long as that runs.
    assert (site.place(site.taker) / "one/layer.tar").stat().st_mode & 0o777 == 0o644


def test_a_copy_goes_at_once_where_no_server_runs_any_more(
    site: Site, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    listed = site.offer(monkeypatch, capsys)
    site.engine.images, site.engine.arrives = {}, {CONFIG_ID: THERE}
    site.engine.events = [{"stream": f"Loaded image ID: {CONFIG_ID}\n"}]
    monkeypatch.setenv("NO_SERVER", "3")
    assert site.take(listed) == 0
    assert not site.place(site.taker).parent.exists()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (export(**{"config.json": CONFIG + b" "}), "another image came: sha256:"),
        (export({"Config": "config.json"}, {"Config": "config.json"}), "no export of one image"),
        (export({"Config": "../../../record"}), "is outside of the copy"),
        (export({"Layers": []}), "no export of one image came: 'Config'"),
    ],
    ids=["another", "two", "outside", "none"],
)
def test_an_image_that_is_not_the_locks_is_not_loaded(
    site: Site, monkeypatch: pytest.MonkeyPatch, capsys: Any, content: bytes, told: str
) -> None:
    (site.taker.top / "record").write_bytes(CONFIG)
    site.engine.exports = {CONFIG_ID: content}
    listed = site.offer(monkeypatch, capsys)
    site.engine.images = {}
    assert site.take(listed) == 1
    assert told in site.told()["message"]
    assert site.engine.calls == []
    assert not site.place(site.taker).parent.exists()


def test_what_was_changed_after_the_list_is_not_loaded(
    site: Site, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    listed = site.offer(monkeypatch, capsys)
    with (site.place(site.holder) / "one/layer.tar").open("r+b") as file:
        file.write(b"evil")
    site.engine.images = {}
    assert site.take(listed) == 1
    assert "packs did not come" in site.told()["message"]
    assert site.engine.calls == []


@pytest.mark.parametrize("trouble", ["room", "engine"])
def test_own_trouble_is_no_reason_to_blame_who_gives(
    site: Site, monkeypatch: pytest.MonkeyPatch, capsys: Any, trouble: str
) -> None:
    listed = site.offer(monkeypatch, capsys)
    site.engine.images = {}
    site.engine.arrives = {NAMED: THERE}
    if trouble == "room":
        free = SimpleNamespace(free=3 * len(LAYER))
        monkeypatch.setattr(site.program.shutil, "disk_usage", lambda path: free)
        said = f"{site.place(site.taker).parent}: 0.0 GB free, 1.1 GB are needed for a copy"
        paths = ["/images/create"]
    else:  # no line says what was loaded
        said, paths = (
            "0 images are in the archive, one is wanted",
            ["/images/load", "/images/create"],
        )
    assert site.take(listed) == 0
    assert [path for path, *_ in site.engine.calls] == paths
    assert site.told()["message"].startswith(f"no copy of another machine's: {said}")
    assert not site.place(site.taker).parent.exists()


def test_a_holder_that_cannot_says_why_and_leaves_nothing(
    site: Site, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    site.engine.images = {}
    told = site.offer(monkeypatch, capsys, code=1)
    assert told == "image: docker does not have it any more"
    site.engine.images = {NAMED: THERE}
    site.engine.exports = {CONFIG_ID: export()[:1_000_000]}
    assert "tar: " in site.offer(monkeypatch, capsys, code=1)
    monkeypatch.setattr(site.program.shutil, "disk_usage", lambda path: SimpleNamespace(free=1))
    assert "GB are needed for a copy" in site.offer(monkeypatch, capsys, code=1)
    assert list(site.place(site.holder).parent.iterdir()) == []


def test_an_image_that_was_loaded_is_found_by_the_records_id(
    site: Site, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    site.engine.images = {CONFIG_ID: THERE}
    (site.holder.top / "record").write_text(json.dumps({"id": CONFIG_ID}))
    assert len(site.offer(monkeypatch, capsys)) == 64


# --- which of them is left ---


def seen(resource: NoCopies) -> list[dict[str, Any]]:
    probe = program("probe")
    return [probe.answer(spec) for spec in resource.probes()]


def test_copies_that_nobody_is_at_work_on_are_found_and_removed(tmp_path: Path) -> None:
    copies = tmp_path / "a b"
    wanted = NoCopies(str(copies))
    assert wanted.drift(seen(wanted)) == []
    for name in ("image-1", "image-2"):
        (copies / name / "tree").mkdir(parents=True)
    with program("spread_image").held(copies / "image-2"):
        states = seen(wanted)
        assert wanted.drift(states) == [f"{copies}/image-1: left by a run that died"]
        (mend,) = wanted.fix(states)
        subprocess.run(["sh", "-c", mend.shell], check=True)
        assert [place.name for place in copies.iterdir()] == ["image-2"]
    # The same at the end of the server, as systemd splits it.
    line = image_copies.at_the_end(str(copies)).removeprefix("ExecStopPost=+/bin/sh -c ")
    subprocess.run(["sh", "-c", line.strip('"')], check=True)
    assert list(copies.iterdir()) == []


def test_the_end_of_an_item_removes_its_copy_and_no_other_tree() -> None:
    image = Item("image-1", "x", "/srv/copies/image-1/tree", export=("spread_image.py", "a"))
    build = Item("llama-1", "x", "/opt/llama/1")
    assert spread_wire.stop(image).shell.endswith("; rm -rf /srv/copies/image-1")
    assert "rm -rf" not in spread_wire.stop(build).shell
    offers = [spread_wire.offer(item, "llm", "token", Command("serve")) for item in (image, build)]
    assert ["flock /srv/copies/image-1 sh -c" in offer.shell for offer in offers] == [True, False]
    assert [" a)" in offer.shell for offer in offers] == [True, False]


def test_a_shell_runs_what_is_told_to_a_holder(tmp_path: Path) -> None:
    """The list's hash comes last, after the server runs; a failure leaves no tree."""
    home = tmp_path / "copies/image-1"
    item = Item("image-1", "x", f"{home}/tree", export=("spread_image.py", "it's"))
    own = f"install -d {spread_wire.RUN} && "
    for name, script in {"python3": f'mkdir {home}/tree; echo "$@"; exit ${{BAD:-0}}',
                         "install": f"mkdir -p {home}"}.items():  # fmt: skip
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    offered = spread_wire.offer(item, "llm", "token", Command("echo served")).shell
    assert offered.startswith(own)
    path = f"{tmp_path}:{os.environ['PATH']}"
    good = subprocess.run(["sh", "-c", offered], env={"PATH": path}, capture_output=True, text=True,
                          check=True)  # fmt: skip
    lines = good.stdout.splitlines()
    assert lines[0] == "served"
    told = f"{home}/tree /run/sparkwright/spread/image-1.json llm it's"
    assert lines[1].endswith(f"spread_image.py offer {told}")
    shutil.rmtree(home / "tree")
    bad = subprocess.run(["sh", "-c", offered], env={"PATH": path, "BAD": "1"}, check=False)
    assert bad.returncode == 1
    assert not (home / "tree").exists()


# --- the plan ---


def test_who_has_the_image_gives_it_and_asks_nobody() -> None:
    whole = images.plan(WANTED, states_of(record=RECORD, digest=True))
    assert (whole.job, whole.item and whole.item.place.startswith(
        "/srv/sparkwright/images/copies/image-")) == (None, True)  # fmt: skip
    asked = images.plan(WANTED, states_of(digest=True))
    assert asked.held
    assert asked.job is not None
    lost = images.plan(WANTED, states_of(record=RECORD))
    assert not lost.held
    assert lost.item == whole.item
    assert lost.job is not None
    assert lost.job.digest == NAME


def test_an_image_without_an_id_or_whose_file_is_there_already_is_not_copied() -> None:
    mirror, bundle = (dataclasses.replace(ARCHIVE, url=f"{way}srv/i.tar")
                      for way in ("http://", "file:///"))  # fmt: skip
    for changes, copied in (({"image_id": None}, False), ({"archive": bundle}, False),
                            ({"archive": mirror}, True)):  # fmt: skip
        wanted = dataclasses.replace(WANTED, image=dataclasses.replace(IMAGE, **changes))
        assert (images.plan(wanted, states_of()).item is not None) == copied


def test_the_units_name_is_the_same_on_both_sides() -> None:
    assert program("spread_image").UNIT == spread_wire.UNIT
