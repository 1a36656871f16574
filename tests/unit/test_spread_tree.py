"""Trees (builds, environments) from other machines: real servers, one loopback address each."""

from __future__ import annotations

import getpass
import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.hub_server import FakeHub
from tests.unit.spread_case import LIB, PORT, TOKEN, Machine
from tests.unit.weights_case import REPO

KEY = "llama-0123456789ab"
USER = getpass.getuser()
RECEIVE = """
import sys, json
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import spread_tree
from job_progress import Progress
from spread_job import Spread
spec = json.load(sys.stdin)
spread_tree.HOPELESS_S = 2.0
try:
    spread_tree.receive(Spread(spec["spread"]), spec["user"], Path(spec["top"]),
                        Path(spec["dest"]), Progress(spec["progress"]))
except spread_tree.CopyError as error:
    sys.exit(f"copy: {error}")
"""


class Holder(Machine):
    """A machine with a tree."""

    @property
    def tree(self) -> Path:
        return self.top / "tree"

    def grow(self) -> None:
        """Programs, a link, small files, an empty one, a large one, folders of other modes."""
        (self.tree / "bin").mkdir(parents=True)
        (self.tree / "bin/server").write_bytes(os.urandom(3_000_001))
        (self.tree / "bin/server").chmod(0o755)
        (self.tree / "bin/lib.so").symlink_to("lib.so.1")
        (self.tree / "bin/lib.so.1").write_bytes(b"library")
        (self.tree / "many").mkdir(mode=0o750)
        for number in range(300):
            (self.tree / f"many/{number}").write_text(f"text {number % 7}")
        (self.tree / "many/0").write_text("")
        for place in self.tree.rglob("*"):
            if place.is_file() and not place.is_symlink():
                os.utime(place, ns=(10**18 + 123, 10**18 + 456))
        (self.tree / ".stamp").write_text("own")
        (self.tree / ".files.json").write_text("own")

    def offer(self) -> str:
        words = ["offer", str(self.tree), str(self.run / f"{KEY}.json"), USER]
        done = subprocess.run(
            [sys.executable, str(LIB / "spread_tree.py"), *words],
            input=f"{TOKEN}\n", capture_output=True, text=True, check=True,
        )  # fmt: skip
        return done.stdout.strip()

    def receive(self, listed: str, *peers: Machine, code: int = 0) -> str:
        import json

        (self.run / f"{KEY}.json").write_text(json.dumps({"token": TOKEN, "dirs": [], "packs": []}))
        spread = {
            "item": str(self.run / f"{KEY}.json"),
            "key": KEY,
            "peers": [[peer.name, [peer.address]] for peer in peers],
            "port": PORT,
            "go": str(self.go),
            "manifest": listed,
        }
        spec = {
            "spread": spread,
            "user": USER,
            "top": str(self.top / "tree.new"),
            "dest": str(self.tree),
            "progress": str(self.top / "progress"),
        }
        done = subprocess.run(
            [sys.executable, "-c", RECEIVE, str(LIB)],
            input=json.dumps(spec), capture_output=True, text=True, check=False, timeout=90,
        )  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr


def shown(top: Path) -> dict[str, object]:
    """Everything of a tree that a copy must keep."""
    found: dict[str, object] = {}
    for place in sorted(top.rglob("*")):
        name, info = str(place.relative_to(top)), place.lstat()
        if name in (".stamp", ".files.json"):
            continue
        if place.is_symlink():
            found[name] = str(place.readlink())
        elif place.is_dir():
            found[name] = oct(info.st_mode)
        else:
            found[name] = (oct(info.st_mode), info.st_mtime_ns, place.read_bytes())
    return found


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[list[Holder]]:
    with FakeHub(REPO, {}) as hub:
        found = [Holder(tmp_path, number + 1, hub) for number in range(3)]
        try:
            for machine in found:
                machine.serve()
            found[0].grow()
            yield found
        finally:
            for machine in found:
                machine.kill()


def test_a_tree_arrives_as_it_is_and_is_passed_on(machines: list[Holder]) -> None:
    first, second, third = machines
    listed = first.offer()
    second.receive(listed, first)
    assert shown(second.top / "tree.new") == shown(first.tree)
    assert not (second.top / "tree.new/.stamp").exists()
    first.kill()
    (second.top / "tree.new").rename(second.tree)
    third.receive(listed, first, second)
    assert shown(third.top / "tree.new") == shown(first.tree)


def test_another_list_than_the_laptop_knows_is_refused(machines: list[Holder]) -> None:
    first, second, _ = machines
    first.offer()
    said = second.receive(hashlib.sha256(b"").hexdigest(), first, code=1)
    assert "copy: spark-1: has another list" in said
    assert not (second.top / "tree.new").exists()


def test_a_file_that_was_changed_after_the_list_does_not_arrive(machines: list[Holder]) -> None:
    first, second, _ = machines
    listed = first.offer()
    with (first.tree / "bin/server").open("r+b") as file:
        file.write(b"evil")
    said = second.receive(listed, first, code=1)
    assert "server: came with sha256:" in said
    assert "packs did not come" in said
    assert not (second.top / "tree.new/bin/server").exists()
