"""Weights from other machines: real servers and real jobs, one loopback address a machine."""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.unit.hub_server import FakeHub
from tests.unit.machine_case import program
from tests.unit.spread_case import KEY, PORT, TOKEN, WANTED, Machine, ended, site
from tests.unit.weights_case import FILES, REPO, SHARDS


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    with FakeHub(REPO, dict(FILES)) as found:
        yield found


def whole(machine: Machine) -> None:
    """Every file is there with its bytes, and the stamp vouches for it."""
    assert {path: (machine.dir / path).read_bytes() for path in WANTED} == WANTED
    assert machine.status()["ok"]


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def test_the_chosen_one_goes_upstream_and_the_others_copy(tmp_path: Path, hub: FakeHub) -> None:
    with site(tmp_path, 4, hub) as machines:
        machines[0].go.touch()
        jobs = [machine.start() for machine in machines]
        said = [ended(job) for job in jobs]
        assert all(hub.asked(path) == 1 for path in WANTED), hub.requests
        assert "4 of 4 files came from other machines" in said[1]
        for machine in machines:
            whole(machine)
        digests = {machine.status()["manifest_digest"] for machine in machines}
        assert len(digests) == 1
        # A second run asks nobody.
        asked = len(hub.requests)
        assert "nothing to do" in ended(machines[2].start())
        assert len(hub.requests) == asked


def test_a_machine_that_has_it_gives_it_and_nothing_is_fetched(
    tmp_path: Path, hub: FakeHub
) -> None:
    with site(tmp_path, 3, hub) as machines:
        machines[2].fill()
        for machine in machines[:2]:
            assert "4 of 4 files came" in ended(machine.start())
            whole(machine)
        assert hub.requests == []


def test_a_holder_that_dies_is_named_and_another_one_goes_on(tmp_path: Path, hub: FakeHub) -> None:
    with site(tmp_path, 3, hub) as machines:
        first, second, third = machines
        second.fill(SHARDS[0])
        job = third.start()
        until(lambda: (third.dir / SHARDS[0]).is_file(), "the first shard")
        second.kill()
        until(lambda: "spark-2" in str(third.progress().get("lost")), "the lost machine")
        first.fill()
        said = ended(job)
        whole(third)
        assert "left out: spark-2 (" in said
        assert hub.requests == []


def test_when_the_chosen_one_fails_another_fetches_only_the_rest(
    tmp_path: Path, hub: FakeHub
) -> None:
    with site(tmp_path, 3, hub) as machines:
        first, second, third = machines
        first.fill(SHARDS[0], SHARDS[1])
        jobs = [second.start(), third.start()]
        # Both of both: they arrive in any order, and what neither has must come from upstream.
        copies = [machine.dir / shard for machine in (second, third) for shard in SHARDS[:2]]
        until(lambda: all(copy.is_file() for copy in copies), "two shards")
        first.kill()
        second.go.touch()  # the laptop chooses anew
        for job in jobs:
            ended(job)
        whole(second)
        whole(third)
        assert (hub.asked(SHARDS[0]), hub.asked(SHARDS[1]), hub.asked(SHARDS[2])) == (0, 0, 1)


def test_a_machine_that_gives_wrong_bytes_is_not_believed(tmp_path: Path, hub: FakeHub) -> None:
    with site(tmp_path, 2, hub) as machines:
        first, second = machines
        first.fill()
        wrong = bytearray(WANTED[SHARDS[1]])
        wrong[4000] ^= 1
        (first.dir / SHARDS[1]).write_bytes(wrong)
        second.go.touch()
        said = ended(second.start())
        whole(second)
        assert f"spark-1: {SHARDS[1]}: came with sha256:" in said
        assert hub.asked(SHARDS[1]) == 1
        assert hub.asked(SHARDS[0]) == 0


def test_the_chosen_one_does_not_wait_for_news_of_machines_that_have_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A first question that waited for news took 5 s of every first download."""
    swarm, asked, ended = program("spread_swarm"), list[int](), threading.Event()

    class Link:
        def __init__(self, peer: object) -> None:
            pass

        def have(self, known: int) -> tuple[list[int], bool]:
            asked.append(known)
            if known == 0:  # a machine holds its answer back until it has something new
                ended.wait(60)
            return [], False

    monkeypatch.setattr(swarm, "Link", Link)
    part = program("spread_part").Part(tmp_path / "a", tmp_path / "b", 1, "sha256:x")
    peers = [program("spread_link").Peer("spark-2", ("127.0.0.1",), 1, "key", "token")]
    going = swarm.Swarm(peers, [[part]], lambda came: None, lambda: True, 60, lambda swarm: None)
    going.run()
    assert not ended.is_set()
    ended.set()
    assert asked[0] != 0
    assert list(going.waiting) == [0]


def test_what_a_cut_left_is_not_sent_again(tmp_path: Path, hub: FakeHub) -> None:
    with site(tmp_path, 2, hub) as machines:
        first, second = machines
        first.fill()
        data = WANTED[SHARDS[0]]
        part = second.dir / ".cache/plain" / f"{SHARDS[0]}.partial"
        part.parent.mkdir(parents=True)
        part.write_bytes(data[: len(data) // 2])
        ended(second.start())
        whole(second)


def test_links_of_a_copied_cache_are_no_files(tmp_path: Path, hub: FakeHub) -> None:
    """spark-vllm-docker#408: the links of a hub cache were copied, and not what they point to."""
    with site(tmp_path, 2, hub) as machines:
        first, second = machines
        second.dir.mkdir(parents=True)
        for path in WANTED:
            (second.dir / path).symlink_to(tmp_path / "blobs" / path)
            (first.dir / path).parent.mkdir(parents=True, exist_ok=True)
        first.fill(*[path for path in WANTED if path != SHARDS[2]])
        blob = tmp_path / "blob"
        blob.write_bytes(WANTED[SHARDS[2]])
        (first.dir / SHARDS[2]).symlink_to(blob)  # this holder's own file is a link: not given
        second.go.touch()
        ended(second.start())
        whole(second)
        assert not any((second.dir / path).is_symlink() for path in WANTED)
        assert hub.asked(SHARDS[2]) == 1


def test_nobody_answers_and_that_is_said(tmp_path: Path, hub: FakeHub) -> None:
    with site(tmp_path, 2, hub) as machines:
        first, second = machines
        first.kill()
        job = second.start()
        until(lambda: second.progress().get("message") == "no other machine answers", "the word")
        second.go.touch()
        ended(job)
        whole(second)
        assert hub.asked(SHARDS[0]) == 1


def ask(machine: Machine, path: str, token: str = TOKEN, **headers: str) -> tuple[int, bytes]:
    """One answer; while the same file still goes out to the question before, it is asked again."""
    for _ in range(100):
        link = http.client.HTTPConnection(machine.address, PORT, timeout=20)
        link.request("GET", path, headers={"Authorization": f"Bearer {token}", **headers})
        answer = link.getresponse()
        if answer.status != 503:
            break
        time.sleep(0.05)
    return answer.status, answer.read()


def test_the_server_gives_only_the_items_files_and_only_with_its_token(
    tmp_path: Path, hub: FakeHub
) -> None:
    with site(tmp_path, 1, hub) as (machine,):
        machine.fill()
        (machine.dir / "secret").write_text("x")
        number = sorted(WANTED).index(SHARDS[0])
        data = WANTED[SHARDS[0]]
        assert ask(machine, f"/{KEY}/pack/{number}") == (200, data)
        assert ask(machine, f"/{KEY}/pack/{number}", Range="bytes=1000-") == (206, data[1000:])
        assert json.loads(ask(machine, f"/{KEY}/have")[1]) == {
            "have": list(range(len(WANTED))),
            "whole": True,
        }
        for path in (f"/{KEY}/have", f"/{KEY}/pack/0"):
            assert ask(machine, path, "another")[0] == 401
        wrong = ("/", f"/{KEY}/secret", f"/{KEY}/pack/99", "/other/have", f"/{KEY}/pack/../secret")
        assert [ask(machine, path)[0] for path in wrong] == [404] * len(wrong)


def test_the_server_ends_and_leaves_no_token(tmp_path: Path, hub: FakeHub) -> None:
    with site(tmp_path, 1, hub) as (machine,):
        assert machine.server
        machine.server.terminate()
        assert machine.server.wait(20) == 0
        assert list(machine.run.iterdir()) == []


def test_a_machine_that_is_told_of_the_item_later_is_asked_again(
    tmp_path: Path, hub: FakeHub
) -> None:
    """Its server runs already, for something else: it answers 404."""
    with site(tmp_path, 2, hub) as machines:
        first, second = machines
        first.fill()
        (first.run / f"{KEY}.json").unlink()
        job = second.start()
        until(lambda: "does not give this now" in str(second.progress().get("lost")), "the 404")
        first.announce()
        assert "4 of 4 files came from other machines" in ended(job)
        whole(second)
        assert hub.requests == []


def test_ring_of_many(tmp_path: Path, hub: FakeHub) -> None:
    """Machines that know a few others each: what one has reaches all of them."""
    with site(tmp_path, 6, hub) as machines:
        for at, machine in enumerate(machines):
            near = [machines[(at + step) % 6] for step in (1, 2, -1)]
            machine.peers = random.Random(at).sample(near, 3)
        machines[0].go.touch()
        jobs = [machine.start() for machine in machines]
        for job in jobs:
            ended(job)
        for machine in machines:
            whole(machine)
        assert all(hub.asked(path) == 1 for path in WANTED)


def test_only_a_receiver_that_goes_away_is_no_news(capsys: pytest.CaptureFixture[str]) -> None:
    served = program("spread_serve")
    server = served.Server(("127.0.0.1", 0), None)
    for error in (BrokenPipeError(), ConnectionResetError(), TimeoutError()):
        try:
            raise error
        except OSError:
            server.handle_error(None, ("127.0.0.2", 1))
    assert capsys.readouterr().err == ""
    try:
        raise OSError(5, "Input/output error")  # of our own disk
    except OSError:
        server.handle_error(None, ("127.0.0.2", 1))
    server.server_close()
    assert "Input/output error" in capsys.readouterr().err
