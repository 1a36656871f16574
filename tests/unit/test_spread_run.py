"""One run over several machines in greenlets, as pyinfra drives it; the machines are stand-ins."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import gevent
import pytest
from pyinfra.api import FunctionCommand, StringCommand

from sparkwright import report, spread_operations, spread_run
from sparkwright.jobs import Job, JobPlan
from sparkwright.resources import Command
from sparkwright.spread import SILENT, Item, Share

WEIGHTS = Item("weights-0123456789ab", "openai/x", "/srv/w/x", (("a", 1),))
TREE = Item("llama-0123456789ab", "the build of llama.cpp", "/opt/x")
JOB = Job("label", "0123456789ab", ("/p/x.py",), {}, properties=("PrivateNetwork=yes", "Nice=5"))


@dataclass
class FakeHost:
    """Stands in for pyinfra's host: notes what is run on it, and answers."""

    name: str
    commands: list[str] = field(default_factory=list)
    dead: bool = False
    print_prefix = ""
    connector = SimpleNamespace()

    @property
    def data(self) -> Any:
        values = {
            "spread": True,
            "spread_port": 8473,
            "service_user": "llm",
            "data_dir": "/srv/sparkwright",
            "ssh_hostname": f"10.0.0.{self.name[-1]}",
            "_sudo": True,
        }
        return SimpleNamespace(get=values.get, dict=lambda: values)

    def run_shell_command(self, command: StringCommand, **_: Any) -> tuple[bool, Any]:
        if self.dead:
            raise OSError("gone")
        self.commands.append(command.get_raw_value())
        return True, SimpleNamespace(output=f"listed-by-{self.name}")


class Run:
    """Some machines at work on one item.

    + outcome: machine -> what its job does; it gets the progress looker and gives success
    """

    def __init__(self, item: Item, *names: str) -> None:
        self.hosts = {name: FakeHost(name) for name in names}
        self.state = SimpleNamespace(inventory=SimpleNamespace(get_host=self.hosts.__getitem__))
        self.share = Share(item)
        for name in names:
            self.share.sees(name, False)
        self.notes: list[str] = []
        self.fetched: list[str] = []
        self.copied: list[str] = []
        self.done: dict[str, bool] = {}
        self.fail: set[str] = set()
        self.silent: set[str] = set()
        self.lost: list[list[object]] = []

    def watch(
        self, state: Any, host: Any, job: Job, look: Any = None, failing: bool = True
    ) -> bool:
        """In place of following a unit: weights come when somebody has them or when told to go."""
        spread = job.spec.get("spread")
        for _ in range(400):
            if host.name in self.fail and (self.share.making in (host.name, None) or not look):
                return False
            word = SILENT if host.name in self.silent else ""
            if look:
                look(host, {"message": word, "lost": self.lost})
            told = any(text.startswith("touch ") for text in host.commands)
            if told or not spread:
                gevent.sleep(0.02)
                self.fetched.append(host.name)
                return True
            if self.share.holding - {host.name} - {row[0] for row in self.lost}:
                self.copied.append(host.name)
                return True
            gevent.sleep(0.005)
        raise AssertionError(f"{host.name} waited for ever")

    def work(self, name: str) -> None:
        """What pyinfra does with one machine's operation."""
        gevent.getcurrent().host = self.hosts[name]  # type: ignore[attr-defined]  # read back below
        plan = JobPlan(("x",), JOB, (Command("before"),), (Command("after"),), (), self.share.item)
        get = spread_operations.files if self.share.item.files else spread_operations.tree
        commands = get(self.share, plan, JOB)
        self.done[name] = True
        for command in commands:
            if isinstance(command, FunctionCommand):
                good = command.function(self.state, self.hosts[name], *command.args)
            else:
                assert isinstance(command, StringCommand)
                self.hosts[name].commands.append(command.get_raw_value())
                good = True
            if good is False:
                self.done[name] = False
                break
        del commands

    def at_once(self, *names: str) -> None:
        jobs = [gevent.spawn(self.work, name) for name in names or self.hosts]
        gevent.joinall(jobs, timeout=30)
        assert all(job.successful() for job in jobs), [job.exception for job in jobs]


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Run]:
    current = SimpleNamespace()
    monkeypatch.setattr(spread_operations.time, "sleep", lambda s: gevent.sleep(min(s, 0.005)))

    def make(item: Item, *names: str) -> Run:
        run = Run(item, *names)
        current.run = run
        return run

    class Here:
        def __getattr__(self, name: str) -> Any:
            return getattr(gevent.getcurrent().host, name)  # type: ignore[attr-defined]  # set above

    def watching(*args: Any, **more: Any) -> bool:
        return bool(current.run.watch(*args, **more))

    def note(host: Any, what: str) -> None:
        current.run.notes.append(f"{host.name}: {what}")

    class There:
        def __getattr__(self, name: str) -> Any:
            return getattr(current.run.state, name)

    monkeypatch.setattr(spread_operations, "current_host", Here())
    monkeypatch.setattr(spread_operations, "current_state", There())
    monkeypatch.setattr(spread_operations, "watch", watching)
    monkeypatch.setattr(report, "note", note)
    monkeypatch.setattr(spread_run, "secret", functools.partial(bytes, 32))
    return make


NAMES = ("s1", "s2", "s3", "s4")
BOTH = pytest.mark.parametrize("item", [WEIGHTS, TREE], ids=["weights", "tree"])


@BOTH
def test_one_gets_it_and_the_others_copy(start: Callable[..., Run], item: Item) -> None:
    run = start(item, *NAMES)
    run.at_once()
    assert len(run.fetched) == 1
    assert sorted([*run.fetched, *run.copied]) == list(NAMES)
    assert all(run.done.values())
    assert run.share.over
    for host in run.hosts.values():
        assert host.commands[-1].startswith("if [ ")  # the server is stopped, last of all
        assert "after" in host.commands


@BOTH
def test_one_after_the_other(start: Callable[..., Run], item: Item) -> None:
    run = start(item, *NAMES)
    for name in NAMES:
        run.at_once(name)
    assert (run.fetched, run.copied) == (["s1"], ["s2", "s3", "s4"])


@BOTH
def test_machines_that_never_come_hold_up_nobody(start: Callable[..., Run], item: Item) -> None:
    run = start(item, *NAMES)
    run.at_once("s3", "s4")
    assert len(run.fetched) == 1
    assert len(run.copied) == 1


@BOTH
def test_when_the_chosen_one_fails_another_is_chosen(start: Callable[..., Run], item: Item) -> None:
    run = start(item, *NAMES)
    run.fail = {"s1"}
    run.at_once()
    assert run.done == {"s1": False, "s2": True, "s3": True, "s4": True}
    assert len(run.fetched) == 1
    assert "s1" not in run.fetched
    assert run.share.over
    assert run.hosts["s2"].commands[-1].startswith("if [ ")


@BOTH
def test_a_holder_gives_it_and_nobody_fetches(start: Callable[..., Run], item: Item) -> None:
    run = start(item, *NAMES)
    run.share.sees("s4", True)
    run.at_once("s1", "s2", "s3")
    assert run.fetched == []
    assert any("spread_serve.py" in text for text in run.hosts["s4"].commands)


@BOTH
def test_a_holder_that_is_gone_is_named_and_one_of_the_others_fetches(
    start: Callable[..., Run], item: Item
) -> None:
    run = start(item, *NAMES)
    run.share.sees("s4", True)
    run.hosts["s4"].dead = True
    run.at_once("s1", "s2", "s3")
    assert len(run.fetched) == 1
    assert any(text.startswith("s4: cannot give ") for text in run.notes), run.notes


def test_a_holder_that_no_machine_reaches_is_named_and_another_is_chosen(
    start: Callable[..., Run],
) -> None:
    """Its SSH answers and its copies do not come: the receivers tell, not the laptop."""
    run = start(WEIGHTS, "s1", "s2", "s3")
    run.share.sees("s3", True)
    run.lost = [["s3", "timed out", False]]
    run.at_once("s1", "s2")
    assert len(run.fetched) == 1
    assert all(run.done[name] for name in ("s1", "s2"))
    assert any(text.endswith("goes on without s3 (timed out)") for text in run.notes), run.notes


def test_who_reaches_nobody_fetches_itself(start: Callable[..., Run]) -> None:
    run = start(WEIGHTS, "s1", "s2")
    run.silent = {"s1", "s2"}
    run.at_once()
    assert sorted(run.fetched) == ["s1", "s2"]


def test_a_copy_that_fails_is_made_here(start: Callable[..., Run]) -> None:
    run = start(TREE, "s1", "s2")
    run.share.sees("s2", True)
    real = run.watch

    def broken(state: Any, host: Any, job: Job, look: Any = None, failing: bool = True) -> bool:
        copying: Mapping[str, Any] | None = job.spec.get("spread")
        return False if copying else real(state, host, job, look, failing)

    run.watch = broken  # type: ignore[method-assign]  # a copy that never arrives
    run.at_once("s1")
    assert run.fetched == ["s1"]
    assert any("the copy from s2 failed" in text for text in run.notes)


def test_a_copy_has_the_network_that_a_build_has_not(start: Callable[..., Run]) -> None:
    run = start(TREE, "s1", "s2")
    run.share.sees("s2", True)
    run.at_once("s1")
    begun = next(text for text in run.hosts["s1"].commands if "systemd-run" in text
                 and "/p/x.py" in text)  # fmt: skip
    assert "PrivateNetwork" not in begun
    assert "Nice=5" in begun


@BOTH
def test_who_comes_later_has_those_before_give_it(start: Callable[..., Run], item: Item) -> None:
    """With -y and --serial nobody knows of the later ones: each server ends before the next."""
    run = start(item)
    for name in NAMES:
        run.hosts[name] = FakeHost(name)
        run.share.sees(name, False)
        run.at_once(name)
    assert (run.fetched, run.copied) == (["s1"], ["s2", "s3", "s4"])
    assert not any("spread_serve.py" in text for text in run.hosts["s4"].commands[:1])
    first = run.hosts["s1"].commands
    assert sum("spread_serve.py" in text for text in first) >= 1
    assert first[-1].startswith("if [ ")  # closed again


def test_a_machine_alone_opens_no_port(start: Callable[..., Run]) -> None:
    run = start(WEIGHTS, "s1")
    run.at_once()
    assert run.fetched == ["s1"]
    assert not any("spread" in text for text in run.hosts["s1"].commands)


def test_one_that_comes_during_a_lonely_download_copies_from_it(start: Callable[..., Run]) -> None:
    run = start(WEIGHTS, "s1")
    real = run.watch

    def slow(state: Any, host: Any, job: Job, look: Any = None, failing: bool = True) -> bool:
        if host.name == "s1":
            run.hosts["s2"] = FakeHost("s2")
            run.share.sees("s2", False)
            late.append(gevent.spawn(run.work, "s2"))
            gevent.sleep(0.05)
        return real(state, host, job, look, failing)

    late: list[gevent.Greenlet[..., Any]] = []
    run.watch = slow  # type: ignore[method-assign]  # the second machine comes in the middle
    run.at_once("s1")
    gevent.joinall(late, timeout=30)
    assert (run.fetched, run.copied) == (["s1"], ["s2"])
    assert any("spread_serve.py" in text for text in run.hosts["s1"].commands)


def test_a_machine_waits_for_the_answers_of_those_that_are_asked(
    start: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start(WEIGHTS, "s1", "s2")
    monkeypatch.setattr(spread_run.time, "sleep", gevent.sleep)
    seen: list[str] = []

    def work(name: str, answers_after_s: float) -> None:
        with spread_run.asking(run.state, run.hosts[name]):
            gevent.sleep(answers_after_s)
            seen.append(name)
        spread_run.gather(run.state)
        seen.append("on")

    gevent.joinall([gevent.spawn(work, "s1", 0.0), gevent.spawn(work, "s2", 0.2)], timeout=30)
    assert seen == ["s1", "s2", "on", "on"]
    monkeypatch.setattr(spread_run, "GATHER_S", 0.1)
    with spread_run.asking(run.state, run.hosts["s1"]):  # hangs: nobody waits for ever
        spread_run.gather(run.state)
