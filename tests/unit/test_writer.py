"""One converge at a time: the machine's side with real files, and whose lock is dead."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from sparkwright import writer
from sparkwright.facts import Machine

ALICE, BOB = {"run": "a", "user": "alice"}, {"run": "b", "user": "bob"}


def do(folder: Path, what: str, holder: dict[str, str], **more: Any) -> dict[str, Any]:
    """One question, in a process of its own, as a machine is asked it."""
    spec = {"do": what, "holder": holder, "stale_s": 300, "folder": str(folder), **more}
    command = Machine().command(json.dumps([{"kind": "lock", **spec}])).get_raw_value()
    argv = ["sh", "-c", command]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60)
    [found] = Machine().process(done.stdout.splitlines())
    return found


def test_the_second_is_told_who_holds_it_until_it_is_released(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert do(folder, "take", ALICE) == {"held": True, "by": None, "over": None}
    second = do(folder, "take", BOB)
    assert (second["held"], second["by"]["user"], second["over"]) == (False, "alice", None)
    assert do(folder, "release", BOB)["held"] is False
    assert (folder / "lock").exists()
    assert do(folder, "renew", ALICE)["held"]
    do(folder, "release", ALICE)
    assert not list(folder.iterdir())
    assert do(folder, "take", BOB)["held"]


def test_a_lock_that_was_not_renewed_is_taken_over_and_the_loser_learns_of_it(
    tmp_path: Path,
) -> None:
    do(tmp_path, "take", ALICE)
    record = json.loads((tmp_path / "lock").read_text())
    record["beat"] -= 301
    (tmp_path / "lock").write_text(json.dumps(record))
    assert do(tmp_path, "take", BOB)["over"]["user"] == "alice"
    renewed = do(tmp_path, "renew", ALICE)
    assert (renewed["held"], renewed["by"]["user"]) == (False, "bob")


def test_only_the_lock_that_was_seen_to_be_dead_is_replaced(tmp_path: Path) -> None:
    """Between the look at it and the taking somebody else may have come."""
    do(tmp_path, "take", ALICE)
    assert do(tmp_path, "take", BOB, over="somebody's")["held"] is False
    assert do(tmp_path, "take", BOB, over="a")["over"]["user"] == "alice"


def test_a_renewal_after_a_reboot_of_the_machine_takes_it_again(tmp_path: Path) -> None:
    do(tmp_path, "take", ALICE)
    (tmp_path / "lock").unlink()  # /run is empty after a boot
    assert do(tmp_path, "renew", ALICE)["held"]
    assert (tmp_path / "lock").exists()


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"user": "x"}'])
def test_what_is_no_record_is_no_lock(tmp_path: Path, text: str) -> None:
    assert writer.parse(text) is None


def test_of_many_at_once_one_has_it(tmp_path: Path) -> None:
    with ThreadPoolExecutor(12) as pool:
        runs = [pool.submit(do, tmp_path, "take", {"run": str(n)}) for n in range(12)]
    assert [run.result()["held"] for run in runs].count(True) == 1


def test_a_process_that_is_gone_is_dead_and_a_living_one_is_not() -> None:
    me = writer.holder()
    assert not writer.dead(me, me)
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    theirs = {**me, "pid": child.pid, "began": writer._began(child.pid)}
    assert theirs["began"]
    assert not writer.dead(theirs, me)
    child.kill()
    deadline = time.monotonic() + 30
    while not writer.dead(theirs, me):  # not reaped: a zombie changes nothing any more
        assert time.monotonic() < deadline
    child.wait()
    assert writer.dead(theirs, me)


OTHERS: dict[str, tuple[dict[str, object], bool]] = {
    "another user": ({"user": "x"}, False),
    "another laptop": ({"host": "x"}, False),
    "another container on this laptop": ({"space": "pid:[1]"}, False),
    "its pid is another process now": ({"began": "1"}, True),
    "before this laptop's reboot": ({"boot": "x"}, True),
    "another laptop of the same name": ({"boot": "x", "laptop": "y"}, False),
    "a laptop without a name": ({"boot": "x", "laptop": ""}, False),
}


@pytest.mark.parametrize("name", OTHERS)
def test_whose_lock_is_dead(name: str) -> None:
    changes, dead = OTHERS[name]
    me = {**writer.holder(), "laptop": "this"}
    assert writer.dead({**me, **changes}, me) is dead


def test_a_record_says_who_where_and_since_when() -> None:
    me = writer.holder()
    said = writer.text(me)
    assert said.startswith(f"locked by {me['user']}@{me['host']} since {me['since']}, whose")
    assert f"process {os.getpid()}" in said
    assert "5 minutes" in said
