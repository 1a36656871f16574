"""Contents of a bundle from other machines: real servers and copies, one loopback address each."""

from __future__ import annotations

import hashlib
import json
import os
import random
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from sparkwright import push_wire
from sparkwright.push_site import Site
from tests.unit.machine_case import program
from tests.unit.spread_case import address
from tests.unit.weights_case import LIB

PORT = 18474
DATA = {f"part-{n}": random.Random(n).randbytes(size)
        for n, size in enumerate((3_000_001, 70_000, 1, 0, 500_000))}  # fmt: skip
NAMES = {hashlib.sha256(data).hexdigest(): name for name, data in DATA.items()}
SITE = Site({sha256: len(DATA[name]) for sha256, name in NAMES.items()})
ALL = SITE.contents


class Far:
    """One machine: its part of the bundle, its server, its copy."""

    def __init__(self, top: Path, number: int) -> None:
        self.name, self.address = f"spark-{number}", address(number)
        self.member = SITE.member(self.name)
        self.top, self.run = top / self.name / "bundle", top / self.name / "run"
        self.incoming = self.top / push_wire.INCOMING
        self.give, self.copy = self.run / "bundle/give", self.run / push_wire.LABEL
        self.member.has, self.server = {}, None
        self.incoming.mkdir(parents=True)
        self.announce()

    server: subprocess.Popen[bytes] | None

    def put(self, command: push_wire.Command) -> None:
        """What the laptop has it write, below its own directory."""
        told = json.loads((command.stdin or "").replace(push_wire.RUN, str(self.run)))
        program("push_put").put(self.run, told["files"], told["absent"], os.getuid(), os.getgid())

    def announce(self) -> None:
        self.put(push_wire.announce(SITE, self.member, str(self.top), "a-token"))

    def has(self, *contents: str) -> None:
        """It has these under their own names."""
        for sha256 in contents:
            (self.top / "files").mkdir(exist_ok=True)
            (self.top / "files" / NAMES[sha256]).write_bytes(DATA[NAMES[sha256]])
            self.member.has[sha256] = f"files/{NAMES[sha256]}"
        self.announce()

    def serve(self) -> None:
        words = [sys.executable, str(LIB / "spread_serve.py"), str(self.give), str(PORT)]
        self.server = subprocess.Popen([*words, self.address])

    def start(self, wanted: Sequence[str], *others: Far) -> subprocess.Popen[str]:
        """Begin a copy."""
        peers = [
            {
                "name": o.name,
                "addresses": [o.address],
                "has": [n for n, c in enumerate(ALL) if c in o.member.has],
            }
            for o in others
        ]
        job = push_wire.copy_job(SITE, wanted, str(self.top), peers, PORT)
        self.put(push_wire.start(job)[0])
        argv = [sys.executable, str(self.run / "bundle/lib/push_copy.py")]
        return subprocess.Popen(
            [*argv, str(self.copy / "spec.json")], stdout=subprocess.PIPE, text=True
        )

    def progress(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads((self.copy / "progress").read_text())
        except (OSError, ValueError):
            return {}
        return found

    def whole(self, contents: Sequence[str]) -> None:
        for sha256 in contents:
            assert (self.incoming / sha256).read_bytes() == DATA[NAMES[sha256]]


@pytest.fixture
def far(tmp_path: Path) -> Iterator[Callable[[int], Far]]:
    made: list[Far] = []

    def make(number: int) -> Far:
        made.append(Far(tmp_path, number))
        made[-1].serve()
        return made[-1]

    yield make
    for one in made:
        if one.server:
            one.server.kill()
            one.server.wait()


def ended(job: subprocess.Popen[str], code: int = 0) -> str:
    said = job.communicate(timeout=60)[0]
    assert job.returncode == code, said
    return said


def until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def test_what_several_machines_have_between_them_comes(far: Callable[[int], Far]) -> None:
    one, two, three = far(1), far(2), far(3)
    one.has(*ALL[:2])
    two.has(*ALL[2:])
    ended(three.start(ALL, one, two))
    three.whole(ALL)
    assert three.progress()["waiting"] == []
    assert three.progress()["done_bytes"] == sum(map(len, DATA.values()))
    assert list(three.incoming.glob("*.part")) == []


def test_what_arrives_is_passed_on_at_once_and_a_renamed_file_too(
    far: Callable[[int], Far],
) -> None:
    one, two = far(1), far(2)
    job = two.start(ALL[:3], one)
    for sha256 in ALL[:2]:  # as a push puts it there
        (one.incoming / sha256).write_bytes(DATA[NAMES[sha256]])
    until(lambda: two.progress().get("waiting") == [2], "two contents")
    one.has(*ALL[:3])  # settled
    ended(job)
    two.whole(ALL[:3])


def test_other_contents_are_neither_asked_for_nor_touched(far: Callable[[int], Far]) -> None:
    one, two = far(1), far(2)
    one.has(*ALL)
    ended(two.start(ALL[1:3], one))
    assert sorted(path.name for path in two.incoming.iterdir()) == sorted(ALL[1:3])


def test_what_a_cut_push_left_is_not_copied_again(far: Callable[[int], Far]) -> None:
    one, two = far(1), far(2)
    one.has(*ALL)
    large = next(c for c in ALL if SITE.sizes[c] > 10**6)
    data = DATA[NAMES[large]]
    (two.incoming / f"{large}.part").write_bytes(data[:2_000_000])
    ended(two.start([large], one))
    two.whole([large])


def test_wrong_bytes_are_not_taken_and_their_giver_is_named(far: Callable[[int], Far]) -> None:
    one, two = far(1), far(2)
    one.has(*ALL)
    (large,) = [c for c in ALL if SITE.sizes[c] > 10**6]
    place = one.top / one.member.has[large]
    place.write_bytes(b"x" + place.read_bytes()[1:])
    job = two.start(ALL, one)
    number = ALL.index(large)
    until(lambda: two.progress().get("wrong"), "the wrong one")
    assert two.progress()["wrong"] == [["spark-1", number, "gave other bytes"]]
    until(lambda: two.progress()["waiting"] == [number], "the others")
    (two.copy / "go").touch()
    ended(job)
    assert not (two.incoming / large).exists()
    assert not (two.incoming / f"{large}.part").exists()


def test_a_machine_that_is_busy_is_not_wrong(far: Callable[[int], Far]) -> None:
    one, two = far(1), far(2)
    one.has(*ALL)
    job = two.start(ALL[:1], one)
    ended(job)
    copy = program("push_copy").Copy(json.loads((two.copy / "spec.json").read_text()))
    copy.swarm.asked[0].not_before[0] = time.monotonic() + 5  # it gives it to another one
    assert copy.wrong([0]) == []
    copy.swarm.asked[0].not_before[0] = time.monotonic() + 3000  # it was not what it should be
    assert copy.wrong([0]) == [["spark-1", 0, "gave other bytes"]]


def test_a_machine_that_lacks_what_it_should_have_is_named(
    far: Callable[[int], Far], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = far(1), far(2)
    one.has(*ALL)
    lacking = ALL[1]
    (one.top / one.member.has[lacking]).unlink()
    job = two.start(ALL, one)
    until(lambda: two.progress().get("wrong"), "what it lacks")
    assert two.progress()["wrong"] == [["spark-1", 1, "does not have it"]]
    (two.copy / "go").touch()
    ended(job)


def test_who_is_told_to_get_the_rest_elsewhere_ends_without_it(far: Callable[[int], Far]) -> None:
    one, two = far(1), far(2)
    one.has(ALL[0])
    job = two.start(ALL, one)
    until(lambda: two.progress().get("waiting") == [1, 2, 3, 4], "the one")
    assert job.poll() is None
    (two.copy / "go").touch()
    ended(job)
    two.whole(ALL[:1])


def test_nobody_answers_and_that_is_said(far: Callable[[int], Far]) -> None:
    one, two = far(1), far(2)
    assert one.server
    one.server.kill()
    job = two.start(ALL, one)
    until(lambda: two.progress().get("message") == "no other machine answers", "the word")
    assert two.progress()["lost"][0][0] == "spark-1"
    (two.copy / "go").touch()
    ended(job)


def test_a_full_disk_fails_with_its_reason(far: Callable[[int], Far]) -> None:
    one, two = far(1), far(2)
    one.has(*ALL)
    two.incoming.rmdir()
    two.incoming.write_text("not a directory")  # as root, modes stop nobody
    ended(two.start(ALL, one), code=1)
    assert two.progress()["phase"] == "failed"
    assert two.progress()["message"]


def test_what_is_put_on_a_machine_is_nobody_elses(far: Callable[[int], Far]) -> None:
    one = far(1)
    item = one.give / f"{SITE.item.key}.json"
    assert stat.S_IMODE(item.stat().st_mode) == 0o600
    assert stat.S_IMODE(one.give.stat().st_mode) == 0o700
    assert stat.S_IMODE((one.run / "bundle/lib").stat().st_mode) == 0o755
    target = one.run / "elsewhere"
    target.write_text("kept")
    item.unlink()
    for place in (item, item.with_name(f".{item.name}.new")):  # where it is written first
        place.symlink_to(target)
    one.announce()
    assert (target.read_text(), item.is_symlink()) == ("kept", False)
    assert [place.name for place in one.give.iterdir()] == [item.name]


def test_nothing_is_put_elsewhere(tmp_path: Path) -> None:
    put = program("push_put").put
    with pytest.raises(ValueError, match="not in the subpath"):
        put(tmp_path / "run", {str(tmp_path / "other/x"): ""}, [], 0, 0)


def test_the_token_is_in_no_command_line() -> None:
    commands = [
        push_wire.announce(SITE, SITE.member("x"), "/srv/b", "a-token"),
        push_wire.serve("/srv/b", PORT, ["10.0.0.1"]),
        *push_wire.start(push_wire.copy_job(SITE, ALL, "/srv/b", [], PORT)),
    ]
    assert not any("a-token" in command.shell for command in commands)
    assert "a-token" in (commands[0].stdin or "")


def test_server_and_copy_run_as_the_account_that_logs_in() -> None:
    copy = push_wire.copy_job(SITE, ALL, "/srv/b", [], PORT)
    for command in (push_wire.serve("/srv/b", PORT, ["10.0.0.1"]), push_wire.start(copy)[1]):
        assert '--property=User="${SUDO_UID:-0}"' in command.shell
        assert "NoNewPrivileges=yes" in command.shell
        assert "ProtectHome=tmpfs" in command.shell
