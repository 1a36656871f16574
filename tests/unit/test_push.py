"""The push: its two ends on one computer, with pipes where ssh would be."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from sparkwright import push_send, push_sending
from sparkwright.bundle_layout import Entry
from sparkwright.errors import SparkwrightError
from sparkwright.push_operations import phrases
from sparkwright.push_send import push
from sparkwright.push_sending import PushError, Sending
from sparkwright.push_ssh import ssh_words
from sparkwright.push_state import missing, program
from sparkwright.push_stream import Stream
from tests.unit.weights_case import LIB

SIZES = {"files/a/big": 3_000_001, "wheels/b.whl": 70_000, "apt/empty": 0, "hub/x/y": 1}


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Place:
    """A bundle on the laptop, a machine's directory, and what runs between them."""

    def __init__(self, root: Path) -> None:
        self.top, self.dest = root / "bundle", root / "machine"
        self.files: list[tuple[str, int, str]] = []
        for name, size in SIZES.items():
            self.put(name, os.urandom(size))
        self.incoming = self.dest / ".sparkwright/incoming"

    def put(self, name: str, data: bytes) -> None:
        path = self.top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        self.files = [row for row in self.files if row[0] != name]
        self.files.append((name, len(data), sha256(data)))

    def run(self, command: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, str(LIB / "push_place.py"), command, str(self.dest)],
            input=json.dumps({"files": self.files}), capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == code, done.stderr
        return done

    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.run("state").stdout)
        return found

    def argv(self) -> list[str]:
        return [sys.executable, str(LIB / "push_receive.py"), str(self.incoming)]

    def send(self) -> Any:
        have = self.state()["have"]
        rows = [row for row in self.files if have.get(row[0]) != row[2][:16]]
        return push(self.argv(), self.top, rows)

    def all(self) -> Any:
        self.run("prepare")
        sent = self.send()
        self.run("settle")
        return sent

    def same(self) -> bool:
        return all((self.dest / n).read_bytes() == (self.top / n).read_bytes()
                   for n, _, _ in self.files)  # fmt: skip


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_everything_arrives_once(place: Place) -> None:
    assert place.state()["have"] == {}
    assert place.all().sent == sum(SIZES.values())
    assert place.same()
    assert sorted(place.state()["have"]) == sorted(SIZES)
    assert place.all().sent == 0
    assert list(place.incoming.glob("*")) == [place.incoming / "lock"]


def test_only_what_changed_travels_and_what_left_is_removed(place: Place) -> None:
    place.all()
    place.put("wheels/c.whl", b"new")
    place.files = [row for row in place.files if row[0] != "hub/x/y"]
    (place.dest / "files/mine").write_text("not of the bundle")
    assert place.all().sent == 3
    assert not (place.dest / "hub/x/y").exists()
    assert (place.dest / "files/mine").exists()


def test_one_content_travels_once_for_two_names(place: Place) -> None:
    data = (place.top / "files/a/big").read_bytes()
    place.put("images/same.tar", data)
    assert place.all().sent == sum(SIZES.values())
    assert place.same()


def test_a_cut_file_goes_on_where_it_was(place: Place) -> None:
    place.run("prepare")
    name, _, digest = place.files[0]
    (place.incoming / f"{digest}.part").write_bytes((place.top / name).read_bytes()[:1_000_000])
    sent = place.send()
    assert (sent.sent, sent.skipped) == (sum(SIZES.values()) - 1_000_000, 1_000_000)
    place.run("settle")
    assert place.same()


def test_a_wrong_part_is_sent_whole(place: Place) -> None:
    place.run("prepare")
    digest = place.files[0][2]
    (place.incoming / f"{digest}.part").write_bytes(b"x" * 1000)
    place.send()
    place.run("settle")
    assert place.same()


def test_a_damaged_file_of_the_bundle_is_named_and_gets_no_name_there(place: Place) -> None:
    place.run("prepare")
    path = place.top / "files/a/big"
    data = bytearray(path.read_bytes())
    data[5] ^= 1
    path.write_bytes(data)
    with pytest.raises(PushError, match=r"files/a/big: arrived with sha256 .* the manifest says"):
        place.send()
    place.run("settle", code=1)
    assert not (place.dest / "files/a/big").exists()
    assert (place.dest / "wheels/b.whl").exists()


def test_a_file_that_shrank_on_the_laptop_is_named(place: Place) -> None:
    place.run("prepare")
    (place.top / "files/a/big").write_bytes(b"short")
    with pytest.raises(PushError, match="files/a/big: has not 3000001 bytes"):
        place.send()


def test_a_second_push_is_refused(place: Place) -> None:
    place.run("prepare")
    with (place.incoming / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(PushError, match="another push to this machine is under way"):
            place.send()
    assert place.send().sent == sum(SIZES.values())


def several(monkeypatch: pytest.MonkeyPatch, most: int = 2) -> list[str]:
    """Further connections are opened at once; returns the last word of each that is opened.

    + most: connections, whatever cores there are here
    """
    opened: list[str] = []

    class Seen(Stream):
        def __init__(self, argv: Sequence[str], sending: Sending) -> None:
            super().__init__(argv, sending)
            opened.append(argv[-1])

    monkeypatch.setattr(push_send, "Stream", Seen)
    for name in ("WORTH", "LOOK_S"):
        monkeypatch.setattr(push_send, name, 0)
    monkeypatch.setattr(Sending, "fast", lambda self, streams: True)
    monkeypatch.setattr(push_send, "_most", lambda cores: most)
    return opened


# Runs the receiver; a further connection has five words.
SECOND = 'if [ $# = 4 ]; then exec "$@"; fi; '


@pytest.mark.parametrize("most", [2, 4])
def test_connections_share_the_work(
    place: Place, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    opened = several(monkeypatch, most)
    for number in range(most):
        place.put(f"hub/large-{number}", os.urandom(30_000_001))
    assert place.all().sent == sum(size for _, size, _ in place.files)
    assert opened[1:] == [str(number) for number in range(1, most)]
    assert place.same()
    assert place.all().sent == 0


@pytest.mark.parametrize(
    ("here", "there", "most"), [(1, 1, 2), (2, 20, 2), (20, 2, 2), (20, 3, 3), (20, 20, 4)]
)
def test_both_ends_cores_bound_the_connections(
    monkeypatch: pytest.MonkeyPatch, here: int, there: int, most: int
) -> None:
    monkeypatch.setattr(push_send.os, "cpu_count", lambda: here)
    assert push_send._most(there) == most


def test_each_connection_has_to_be_fast(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    sending = Sending(place.top, {}, 0)
    now = [100.0]
    monkeypatch.setattr(push_sending.time, "monotonic", lambda: now[0])
    sending.moved(300_000_000)
    now[0] += 1.0
    assert sending.fast(1)
    assert not sending.fast(2)
    assert not Sending(place.top, {}, 0).fast(1)


def test_without_a_second_connection_the_first_goes_on(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = several(monkeypatch)
    place.run("prepare")
    push(["sh", "-c", f"{SECOND} exit 1", "sh", *place.argv()], place.top, place.files)
    assert opened[1] == "1"
    place.run("settle")
    assert place.same()


def test_a_second_connection_that_is_lost_ends_the_push(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    several(monkeypatch)
    place.run("prepare")
    lost = 'echo \'{"have": {}, "whole": []}\'; head -c 9 >/dev/null; echo lost >&2; exit 255'
    with pytest.raises(PushError, match=r": lost; what came is kept, run it again"):
        push(["sh", "-c", SECOND + lost, "sh", *place.argv()], place.top, place.files)
    place.send()
    place.run("settle")
    assert place.same()


def test_connections_of_two_pushes_do_not_mix(place: Place) -> None:
    place.run("prepare")
    sending = Sending(place.top, {}, 0)
    streams = []

    def hello(*words: str) -> dict[str, Any]:
        streams.append(Stream([*place.argv(), *words], sending))
        return streams[-1].hello()

    try:
        assert hello("mine")["whole"] == []
        for words in (["theirs"], ["theirs", "1"]):
            with pytest.raises(PushError, match="another push to this machine is under way"):
                hello(*words)
        assert hello("mine", "1")["whole"] == []
    finally:
        for stream in streams:
            stream.end()
    # A further connection of a push whose first one has died.
    with (place.incoming / "lock1").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(PushError, match="another push to this machine is under way"):
            place.send()


def test_a_machine_that_ends_early_is_named(place: Place) -> None:
    with pytest.raises(PushError, match="No such file"):
        push(["sh", "-c", "echo 'No such file' >&2; exit 1"], place.top, place.files)
    hello = 'echo \'{"have": {}, "whole": []}\'; head -c 100000 >/dev/null; echo lost >&2; exit 255'
    with pytest.raises(PushError, match=r"files/a/big: lost; what came is kept, run it again"):
        push(["sh", "-c", hello], place.top, place.files)


def test_a_changed_file_on_the_machine_is_seen_by_its_stat(place: Place) -> None:
    place.all()
    (place.dest / "wheels/b.whl").write_bytes(b"other")
    assert "wheels/b.whl" not in place.state()["have"]
    assert place.all().sent == SIZES["wheels/b.whl"]
    assert place.same()


def test_a_second_name_is_no_change(place: Place) -> None:
    place.all()
    os.link(place.dest / "hub/x/y", place.dest.parent / "weights")
    assert "hub/x/y" in place.state()["have"]


def test_lost_stamps_cost_hashing_and_no_transfer(place: Place) -> None:
    place.all()
    (place.dest / ".sparkwright/stamps.json").write_text('{"cut')
    assert place.state()["have"] == {}
    assert place.all().sent == 0


def test_parts_of_an_older_bundle_are_removed(place: Place) -> None:
    place.run("prepare")
    old = place.incoming / f"{'0' * 64}.part"
    old.write_bytes(b"old")
    place.run("prepare")
    assert not old.exists()


ENTRIES = [Entry("wheels/a.whl", 2 * 10**6, "a" * 64), Entry("wheels/b.whl", 10**6, "b" * 64)]


def test_what_is_missing_is_told_by_part() -> None:
    answer = {"out": json.dumps({"have": {"wheels/b.whl": "b" * 16}, "free": 1, "arrived": 0})}
    assert missing(ENTRIES, answer)[0] == ENTRIES[:1]
    assert phrases("/b", ENTRIES, ["apt/x.deb"]) == [
        "/b: lacks wheels/a.whl and 1 more (3.0 MB)",
        "/b: 1 files no longer belong here, such as apt/x.deb",
    ]
    with pytest.raises(SparkwrightError, match="cannot say what it has: boom"):
        missing(ENTRIES, {"out": "", "err": "boom"})


def test_the_list_goes_through_standard_input() -> None:
    command = program("settle", "/srv/x/bundle", ENTRIES)
    assert command.stdin is not None
    assert json.loads(command.stdin)["files"][0] == ["wheels/a.whl", 2 * 10**6, "a" * 64]
    assert "a.whl" not in command.shell


def test_ssh_is_told_what_pyinfra_is_told() -> None:
    data = {
        "ssh_hostname": "fd00::1", "ssh_port": 2222, "ssh_user": "spark", "ssh_key": "/k",
        "ssh_known_hosts_file": "/a b/known", "ssh_strict_host_key_checking": "accept-new",
        "ssh_config_file": "/c",
    }  # fmt: skip
    words = ssh_words(data)
    text = " ".join(words)
    assert words[-1] == "fd00::1"
    assert "-p 2222" in text
    assert "-F /c -i /k -l spark" in text
    assert 'UserKnownHostsFile="/a b/known"' in text
    assert "StrictHostKeyChecking=accept-new" in text
    assert "Ciphers=aes128-gcm@openssh.com," in text
    assert "BatchMode=yes" in text
    assert "StrictHostKeyChecking=yes" in " ".join(ssh_words({"ssh_hostname": "h"}))
