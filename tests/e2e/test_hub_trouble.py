"""Downloads that go wrong: what is said, what is kept, and what the next run asks for."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.e2e import refusing, support
from tests.e2e.hub_case import SHARD_SIZE, SHARDS, WEIGHTS, Hub, in_background
from tests.e2e.refusing import Bench, broken, serving
from tests.lab.lab import start_lab

pytestmark = pytest.mark.lab

TIKTOKEN = "/srv/sparkwright/tiktoken"
MIDDLE = SHARDS[1]


@pytest.fixture(scope="module")
def machine_hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    with start_lab(machines=1) as lab:
        yield Hub(Bench(lab, tmp_path_factory.mktemp("hub")))


@pytest.fixture
def hub(machine_hub: Hub) -> Iterator[Hub]:
    """The hub behaves, and behaves again after the test."""
    machine_hub.bench.lab.upstream.clear()
    yield machine_hub
    machine_hub.bench.lab.upstream.clear()


def slow(hub: Hub, name: str) -> None:
    """The middle shard comes at 0.3 MB/s: ten seconds in which something can happen."""
    hub.bench.lab.upstream.set(f"*/{name}/resolve/*/{MIDDLE}", rate=300_000)


@contextmanager
def moving(hub: Hub, name: str) -> Iterator[None]:
    """Entered when two shards are finished and the slow one is on its way."""
    part = f"cd {WEIGHTS}/{name}/*/ && find . -name '*.incomplete' | grep -q ."
    hub.wait_for(
        lambda: (
            hub.machine.ssh(part, check=False).returncode == 0
            and hub.held(name) == [SHARDS[0], SHARDS[2]]
        ),
        "the transfer never got to the middle",
    )
    yield


# --- the vocabulary ---


def test_a_login_page_in_place_of_the_vocabulary(hub: Hub) -> None:
    hub.bench.lab.upstream.set("/vocab/*", html_login=True)
    done = refusing.run(hub.bench.fleet(serving()))
    file = hub.bench.lab.prepared.vocab
    assert (
        f"[spark-1] fetch: {hub.bench.lab.upstream.url}/vocab/{file.name}: 77 bytes offered, "
        f"{file.stat().st_size} expected; a web page came instead of the file: a login or proxy "
        "page"
    ) in done.stderr
    assert hub.machine.ssh(f"find {TIKTOKEN} -type f ! -name '*.partial'").stdout == ""


def test_a_vocabulary_of_the_right_size_with_another_hash(hub: Hub) -> None:
    hub.bench.lab.upstream.set("/vocab/*", corrupt=True)
    done = refusing.run(hub.bench.fleet(serving()))
    file = hub.bench.lab.prepared.vocab
    size, right = (
        file.stat().st_size,
        "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    )
    assert (
        f"{hub.bench.lab.upstream.url}/vocab/{file.name}: {size} bytes with sha256 " in done.stderr
    )
    assert f", expected {size} bytes with {right}" in done.stderr
    assert hub.machine.ssh(f"find {TIKTOKEN} -type f").stdout == ""
    hub.bench.lab.upstream.clear()
    support.converge(hub.bench.fleet(serving()))
    assert len(hub.machine.ssh(f"find {TIKTOKEN} -type f").stdout.split()) == 2


# --- transfers that break ---


def test_a_cut_in_the_middle_of_a_shard_is_mended_by_the_run_itself(hub: Hub) -> None:
    name = hub.repository()
    cut = {"cut_after": SHARD_SIZE // 2, "once": True}
    hub.bench.lab.upstream.set(f"*/{name}/resolve/*/{MIDDLE}", **cut)
    with hub.asked(name) as asked:
        support.converge(hub.fleet(name))
    assert sorted(set(asked)) == list(SHARDS)
    assert asked.count(MIDDLE) == 2
    assert len(asked) == 4


def test_after_a_power_cut_only_the_unfinished_shard_is_fetched(hub: Hub) -> None:
    name = hub.repository()
    fleet = hub.fleet(name)
    slow(hub, name)
    with in_background(fleet) as result, moving(hub, name):
        hub.machine.kill()
        hub.machine.boot()
        text = result()
    assert text.startswith("rc 2\n"), text
    job = f"weights-sparkwright-lab-{name}: the connection was lost while it ran"
    assert job in text.splitlines(), text
    assert f"{hub.machine.address}: the SSH connection was lost (" in text
    assert "Traceback" not in text
    hub.bench.lab.upstream.clear()
    with hub.asked(name) as asked:
        support.converge(fleet)
    assert asked == [MIDDLE]
    assert hub.held(name) == list(SHARDS)


def test_when_the_laptop_dies_the_transfer_goes_on_and_the_next_run_joins_it(hub: Hub) -> None:
    name = hub.repository()
    fleet = hub.fleet(name)
    slow(hub, name)
    with hub.asked(name) as asked:
        env = {**os.environ, "SPARKS_FILE": str(fleet)}
        laptop = subprocess.Popen(
            [support.PROGRAM, "converge"], cwd=support.PROJECT, env=env, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        with moving(hub, name):
            os.killpg(laptop.pid, signal.SIGKILL)
            laptop.wait()
        support.converge(fleet)
    assert sorted(asked) == list(SHARDS)


def test_a_disk_that_fills_up_in_the_middle(hub: Hub) -> None:
    name = hub.repository()
    fleet = hub.fleet(name)
    slow(hub, name)
    place = f"{WEIGHTS}/{name}"
    mount = f"mkdir -p {place} && mount -t tmpfs -o size=24m,mode=755 tmpfs {place}"
    with broken(hub.machine, mount, f"umount {place}"):
        with in_background(fleet) as result, moving(hub, name):
            hub.machine.ssh(
                f"sudo dd if=/dev/zero of={place}/filler bs=1M status=none", check=False
            )
            text = result()
        directory = hub.machine.ssh(f"echo {place}/*/").stdout.strip().rstrip("/")
        assert text.startswith("rc 2\n"), text
        said = f"weights-sparkwright-lab-{name}: {directory}: no space left while writing"
        assert said in text.splitlines(), text
        hub.machine.ssh(f"sudo rm {place}/filler")
        hub.bench.lab.upstream.clear()
        with hub.asked(name) as asked:
            support.converge(fleet)
        assert asked == [MIDDLE]


def test_a_disk_too_small_for_what_is_missing_is_refused_before_a_byte(hub: Hub) -> None:
    name = hub.repository()
    place = f"{WEIGHTS}/{name}"
    mount = f"mkdir -p {place} && mount -t tmpfs -o size=8m,mode=755 tmpfs {place}"
    with broken(hub.machine, mount, f"umount {place}"), hub.asked(name) as asked:
        done = refusing.run(hub.fleet(name))
    line = next(x for x in done.stdout.splitlines() if x.startswith("weights-"))
    assert f"{3 * SHARD_SIZE} bytes are missing, " in line
    assert " are free on its file system; free " in line
    assert asked == []


# --- repositories ---


def test_original_and_metal_are_never_asked_for_and_leftovers_are_kept(hub: Hub) -> None:
    name = hub.repository("original", "metal")
    fleet = hub.fleet(name, include=["*"], exclude=["original/*", "metal/*"])
    with hub.asked(name) as asked:
        support.converge(fleet)
    assert sorted(asked) == ["README.md", *SHARDS]
    directory = hub.machine.ssh(f"echo {WEIGHTS}/{name}/*").stdout.strip()
    assert hub.machine.ssh(f"find {directory} -name model.bin").stdout == ""
    left = f"{directory}/original"
    hub.machine.ssh(f"sudo mkdir {left} && sudo truncate -s 12345 {left}/model.bin")
    done = support.sparkwright(fleet, "converge")
    assert done.returncode == 0
    assert (
        f"[spark-1] {left}: 12345 bytes of an earlier download, not used; remove it yourself to "
        "free them"
    ) in done.stderr
    assert hub.machine.ssh(f"stat -c %s {left}/model.bin").stdout.strip() == "12345"


def test_a_repository_that_is_gone(hub: Hub) -> None:
    name = hub.repository()
    fleet = hub.fleet(name)
    hub.remove(name)
    done = refusing.run(fleet)
    url = f"{hub.bench.lab.upstream.url}/sparkwright-lab/{name}"
    assert (
        f"weights-sparkwright-lab-{name}: {url}: the Hub answered 404: no such repository or "
        "revision for this token"
    ) in done.stdout.splitlines(), done.stdout + done.stderr
