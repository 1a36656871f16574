"""A push to several machines in greenlets, as pyinfra drives it; the machines are stand-ins."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import gevent
import pytest

from sparkwright import (
    push_child,
    push_look,
    push_shared,
    push_state,
    push_wire,
    report,
    spread_run,
)
from sparkwright.bundle_layout import Entry
from sparkwright.jobs import Job
from sparkwright.push_state import Seen
from sparkwright.resources import Command

LETTERS = "abcdef"
ENTRIES = {letter: Entry(f"files/{letter}", 10, letter * 64) for letter in LETTERS}
STEP_S = 0.002  # for one content, by whichever way


@dataclass
class Fake:
    """Stands in for one machine.

    + part: what belongs there, a letter each; whole: what arrived; named: what has its name
    + far: machines that it does not reach; found: what its prepare finds to be right
    + announced: where its server looks for each content
    """

    name: str
    part: str
    whole: set[str] = field(default_factory=set)
    named: set[str] = field(default_factory=set)
    parts: dict[str, int] = field(default_factory=dict)
    far: set[str] = field(default_factory=set)
    found: set[str] = field(default_factory=set)
    announced: dict[str, str] = field(default_factory=dict)
    commands: list[str] = field(default_factory=list)
    serves: bool = False
    dead: bool = False
    spoils: set[str] = field(default_factory=set)
    connector = SimpleNamespace()
    print_prefix = ""

    @property
    def data(self) -> Any:
        values = {
            "spread": True,
            "spread_port": 8473,
            "data_dir": "/srv/sparkwright",
            "artifacts_from": "bundle",
            "artifacts_path": "/bundle",
            "ssh_hostname": f"10.0.0.{self.name[1:]}",
            "name": self.name,
        }
        return SimpleNamespace(get=values.get, dict=lambda: values)

    def gives(self, letter: str) -> bool:
        incoming = self.announced.get(letter, "").startswith(push_wire.INCOMING)
        there = letter in (self.whole if incoming else self.named)
        return self.serves and not self.dead and there


class Inventory(dict[str, Fake]):
    """As pyinfra's: its length counts machines, iterating gives them."""

    get_host = dict.__getitem__

    def __iter__(self) -> Any:
        return iter(self.values())


class Run:
    """Machines of one run, given as name and part."""

    def __init__(self, **parts: str) -> None:
        self.machines = Inventory({name: Fake(name, part) for name, part in parts.items()})
        self.state = SimpleNamespace(inventory=self.machines)
        self.sent: list[tuple[str, str]] = []  # by the laptop
        self.copied: list[tuple[str, str]] = []
        self.notes: list[str] = []
        self.done: dict[str, bool] = {}
        self.on_sent: Callable[[Fake, str], None] = lambda machine, letter: None

    def look(self, host: Fake, data: Any, addresses: Sequence[str] = ()) -> Seen:
        """In place of asking a machine."""
        gevent.sleep(0)
        if host.dead:
            raise ConnectionError("the machine did not answer; see the line above")
        files = tuple(ENTRIES[letter] for letter in host.part)
        lacking = [ENTRIES[letter] for letter in host.part if letter not in host.named]
        told = {
            "whole": [letter * 64 for letter in host.whole],
            "parts": {letter * 64: size for letter, size in host.parts.items()},
            "own": list(addresses),
        }
        return Seen(files, lacking, told)

    def send(self, host: Fake, data: Any, files: Sequence[Entry]) -> bool:
        """In place of the push's own process."""
        for entry in files:
            gevent.sleep(STEP_S)
            letter = entry.sha256[0]
            self.on_sent(host, letter)
            if host.dead:
                gevent.sleep(0.2)  # ssh notices later than neighbours do
                return False
            self.sent.append((host.name, letter))
            host.whole.add(letter)
        return True

    def watch(self, state: Any, host: Fake, job: Job, look: Any, failing: bool) -> bool:
        """In place of following a copy: takes what others that give have."""
        contents = {n: row[0][0] for n, row in enumerate(job.spec["packs"]) if row}
        peers = [row[0] for row in job.spec["spread"]["peers"]]
        waiting, begun, answered = dict(contents), len(host.commands), set[str]()
        for rounds in range(2000):
            gevent.sleep(STEP_S)
            if host.dead:
                return False
            if any(f"systemctl --quiet stop {job.unit}" in text for text in host.commands[begun:]):
                return False
            near = [self.machines[p] for p in peers if p not in host.far]
            answered |= {other.name for other in near if other.serves and not other.dead}
            taken = self._take(host, near, waiting)
            away = {p for p in peers if p in host.far or self.machines[p].dead}
            away |= {p for p in peers if not self.machines[p].serves}
            lost = [[p, "timed out", p in answered] for p in away if rounds > 3]
            wrong = [[other.name, n, "gave other bytes"] for other in near for n in waiting
                     if waiting[n] in other.spoils and other.gives(waiting[n])]  # fmt: skip
            if not waiting:
                return True
            look(host, {"waiting": list(waiting), "lost": lost, "wrong": wrong, "message": ""})
            told = any(text.startswith("touch ") for text in host.commands[begun:])
            if told and not taken:
                return True
        raise AssertionError(f"{host.name} waits for ever for {waiting}")

    def _take(self, host: Fake, near: Sequence[Fake], waiting: dict[int, str]) -> bool:
        for number, letter in waiting.items():
            if any(other.gives(letter) and letter not in other.spoils for other in near):
                host.whole.add(letter)
                self.copied.append((host.name, letter))
                del waiting[number]
                return True
        return False

    def run_on(self, host: Fake, command: Command) -> tuple[bool, str]:
        gevent.sleep(0)
        if host.dead:
            return False, "gone"
        host.commands.append(command.shell)
        for path, text in json.loads(command.stdin or "{}").get("files", {}).items():
            if path.startswith(push_wire.GIVE):
                packs = [pack[0][0] for pack in json.loads(text)["packs"]]
                host.announced = dict(zip(self.letters_of_all(), packs, strict=True))
        host.serves |= "spread_serve.py" in command.shell
        host.serves &= not command.shell.startswith(
            "systemctl --quiet stop sparkwright-bundle-give.service"
        )
        return True, ""

    def work(self, name: str) -> None:
        """What pyinfra does with one machine's operation."""
        host: Any = self.machines[name]
        data = host.data.dict()
        with spread_run.asking(self.state, host):
            site = push_shared.site_of(self.state, host)
            seen = push_shared.look(host, data, site)
        assert site
        if not seen.lacking:
            return
        with push_shared.attending(self.state, host, site) as whole:
            spread_run.gather(self.state)
            if host.found:  # hashing takes its time
                gevent.sleep(10 * STEP_S)
                host.named |= host.found
            self.done[name] = push_shared.bring(self.state, host, data, site)
            if self.done[name]:
                assert host.whole | host.named >= set(host.part)
                host.named, host.whole = set(host.part), set()
                push_shared.settled(self.state, host, data, site, whole)

    def at_once(self, *names: str) -> None:
        jobs = [gevent.spawn(self.work, name) for name in names or self.machines.keys()]
        gevent.joinall(jobs, timeout=30)
        assert all(job.successful() for job in jobs), [job.exception for job in jobs]

    def good(self, *names: str) -> None:
        for name in names or self.machines.keys():
            assert self.machines[name].named == set(self.machines[name].part), name
            assert not self.machines[name].serves

    def letters_of_all(self) -> list[str]:
        """Everything that some machine needs, as machines number it."""
        return sorted(set("".join(machine.part for machine in self.machines)))

    def letters(self) -> list[str]:
        """What left the laptop."""
        return sorted(letter for _, letter in self.sent)


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Run]:
    current = SimpleNamespace()

    def make(**parts: str) -> Run:
        current.run = Run(**parts)
        return current.run  # type: ignore[no-any-return]  # set in the line above

    def later(name: str) -> Callable[..., Any]:
        return lambda *args, **more: getattr(current.run, name)(*args, **more)

    def parts(data: Mapping[str, Any]) -> tuple[Entry, ...]:
        return tuple(ENTRIES[letter] for letter in current.run.machines[data["name"]].part)

    def failed(host: Fake, why: str) -> bool:
        current.run.notes.append(f"{host.name}: {why}")
        return False

    monkeypatch.setattr(push_state, "look", later("look"))
    monkeypatch.setattr(push_child, "sent", later("send"))
    monkeypatch.setattr(push_child, "failed", failed)
    monkeypatch.setattr(push_shared, "watch", later("watch"))
    monkeypatch.setattr(push_shared, "files_of", parts)
    monkeypatch.setattr(push_look, "FIRST_S", 0.0)
    monkeypatch.setattr(spread_run, "run_on", later("run_on"))
    monkeypatch.setattr(spread_run, "secret", functools.partial(bytes, 32))
    monkeypatch.setattr(spread_run.time, "sleep", lambda s: gevent.sleep(min(s, 0.005)))
    monkeypatch.setattr(report, "note", failed)
    return make


def test_each_content_leaves_the_laptop_once(start: Callable[..., Run]) -> None:
    run = start(s1="abc", s2="bcd", s3="cde", s4="e")
    run.at_once()
    run.good()
    assert run.letters() == list("abcde")
    assert len(run.copied) == 10 - 5
    assert run.notes == []
    run.sent.clear()
    run.at_once()
    assert (run.sent, len(run.copied)) == ([], 5)


def test_one_after_the_other_and_one_that_never_comes(start: Callable[..., Run]) -> None:
    run = start(s1="abc", s2="bcd", s3="cde", s4="f")
    for name in ("s1", "s2", "s3"):
        run.at_once(name)
    run.good("s1", "s2", "s3")
    assert run.letters() == list("abcde")


def test_a_machine_that_has_it_gives_it(start: Callable[..., Run]) -> None:
    run = start(s1="abc", s2="abc", s3="c")
    run.machines["s2"].named = set("abc")
    run.at_once()
    run.good()
    assert run.sent == []


def test_files_that_were_found_right_only_now_are_given_as_well(start: Callable[..., Run]) -> None:
    """Its stamps were lost, and it was told to give before its files were hashed."""
    run = start(s1="abcd", s2="c", s3="abc")
    run.machines["s1"].named, run.machines["s1"].found = {"c"}, {"a", "b"}
    before: list[tuple[str, str]] = []

    def slow(machine: Fake, letter: str) -> None:
        gevent.sleep(0.3)  # its "d": it is at work for long
        before.extend(run.copied)

    run.on_sent = slow
    late = gevent.spawn_later(0.1, run.work, "s3")
    run.at_once("s1", "s2")
    gevent.joinall([late], timeout=30)
    run.good()
    assert (run.sent, run.notes) == ([("s1", "d")], [])
    assert {("s3", letter) for letter in "abc"} < set(before)


def test_a_machine_alone_opens_no_port(start: Callable[..., Run]) -> None:
    run = start(s1="abc", s2="d")
    run.at_once("s1")
    run.good("s1")
    assert not any("spread_serve" in text for text in run.machines["s1"].commands)


@pytest.mark.parametrize("at", ["a", "b", "c"])
def test_the_machine_that_gets_it_dies(start: Callable[..., Run], at: str) -> None:
    run = start(s1="abc", s2="abc", s3="abc")

    died: list[str] = []

    def die(machine: Fake, letter: str) -> None:
        if letter == at and not died:
            died.append(machine.name)
            machine.dead = True

    run.on_sent = die
    run.at_once()
    others = sorted(run.machines.keys() - set(died))
    run.good(*others)
    assert run.done == {died[0]: False, **dict.fromkeys(others, True)}
    # The run says so in any case; its neighbours do where they had heard of it.
    assert f"{died[0]}: the bundle: goes on without {died[0]} (its own push failed)" in run.notes
    # At worst what had reached nobody else is sent twice.
    assert len(run.sent) <= 3 + "abc".index(at)


def test_a_machine_that_copies_dies(start: Callable[..., Run]) -> None:
    run = start(s1="abcd", s2="abcd", s3="abcd")

    def die(machine: Fake, letter: str) -> None:
        if letter == "c":
            last = min(run.machines.keys() - {machine.name})
            run.machines[last].dead = True

    run.on_sent = die
    run.at_once()
    others = [name for name, machine in run.machines.items() if not machine.dead]
    run.good(*others)
    assert run.letters() == list("abcd")
    assert sorted(run.done.values()) == [False, True, True]


def test_nobody_reaches_another(start: Callable[..., Run]) -> None:
    run = start(s1="abc", s2="bcd", s3="a")
    for machine in run.machines.values():
        machine.far = set(run.machines.keys()) - {machine.name}
    run.at_once()
    run.good()
    assert run.letters() == sorted("abcbcda")
    assert any("goes on without" in text for text in run.notes), run.notes


def test_no_port_is_open_to_another(start: Callable[..., Run]) -> None:
    """Not even the first answer comes: the copies say so."""
    run = start(s1="abc", s2="bcd", s3="a")
    real = run.run_on

    def closed(host: Fake, command: Command) -> tuple[bool, str]:
        found = real(host, command)
        host.serves = False
        return found

    run.run_on = closed  # type: ignore[method-assign]  # calls the other one
    run.at_once()
    run.good()
    assert run.letters() == sorted("abcbcda")
    assert any("goes on without" in text for text in run.notes), run.notes


def test_one_that_reaches_only_a_third_gets_it_from_there(start: Callable[..., Run]) -> None:
    run = start(s1="abc", s2="abc", s3="abc")
    run.machines["s2"].far = {"s1"}
    run.at_once()
    run.good()
    assert run.letters() == list("abc")


def test_one_that_reaches_only_machines_without_it_is_sent_it(start: Callable[..., Run]) -> None:
    run = start(s1="abc", s2="abd", s3="d")
    run.machines["s2"].far = {"s1"}
    run.at_once()
    run.good()
    assert run.letters() == sorted("abcdab")


def test_wrong_bytes_are_sent_by_the_laptop(start: Callable[..., Run]) -> None:
    run = start(s1="abc", s2="abc")
    run.machines["s1"].named = set("abc")
    run.machines["s1"].spoils = {"b"}
    run.at_once()
    run.good()
    assert run.sent == [("s2", "b")]
    assert any(text.startswith("s2: the bundle: s1 gave other bytes: bbb") for text in run.notes)


def test_a_cut_run_goes_on_where_most_is(start: Callable[..., Run]) -> None:
    run = start(s1="abc", s2="abc", s3="abc")
    run.machines["s2"].parts = {"b": 7}
    run.machines["s3"].whole = {"c"}
    run.at_once()
    run.good()
    assert sorted(run.sent) in ([("s1", "a"), ("s2", "b")], [("s2", "b"), ("s3", "a")])


def test_a_push_that_fails_ends_that_machine_alone(start: Callable[..., Run]) -> None:
    run = start(s1="abc", s2="abc", s3="abc")
    real, full = run.send, list[str]()

    def send(host: Fake, data: Any, files: Sequence[Entry]) -> bool:
        full.append(host.name)  # the first one's disk is full
        return host.name != full[0] and real(host, data, files)

    run.send = send  # type: ignore[method-assign]  # calls the other one
    run.at_once()
    others = sorted(run.machines.keys() - {full[0]})
    run.good(*others)
    assert run.done == {full[0]: False, **dict.fromkeys(others, True)}
    assert run.letters() == list("abc")


def test_a_push_that_fails_ends_the_copy_beside_it(start: Callable[..., Run]) -> None:
    run = start(s1="ab", s2="b")
    run.machines["s2"].named = {"b"}
    run.send = lambda *args: False  # type: ignore[method-assign]  # its disk is full
    run._take = lambda *args: False  # type: ignore[method-assign]  # nothing comes for long
    run.at_once()
    assert run.done == {"s1": False}
    assert any("stop sparkwright-bundle-copy-" in text for text in run.machines["s1"].commands)


def test_a_copy_that_breaks_is_sent_instead(start: Callable[..., Run]) -> None:
    run = start(s1="ab", s2="ab")
    run.machines["s1"].named = set("ab")
    run.watch = lambda *args, **more: False  # type: ignore[method-assign]  # it crashed
    run.at_once()
    run.good()
    assert run.letters() == list("ab")
    assert any("the copy failed" in text for text in run.notes)


def test_a_machine_that_cannot_give_is_named(start: Callable[..., Run]) -> None:
    run = start(s1="ab", s2="ab")
    run.machines["s1"].named = set("ab")
    real = run.run_on

    def refuses(host: Fake, command: Command) -> tuple[bool, str]:
        return (False, "no systemd") if host.name == "s1" else real(host, command)

    run.run_on = refuses  # type: ignore[method-assign]  # its server does not start
    run.at_once()
    run.good()
    assert run.letters() == list("ab")
    assert run.notes == ["s1: cannot give the bundle to others: no systemd"]


def test_it_is_off_by_default_and_for_one_machine() -> None:
    state: Any = SimpleNamespace(inventory={"s1": 1, "s2": 1})
    off: Any = SimpleNamespace(name="s1", data=SimpleNamespace(get=lambda name: False))
    assert push_shared.site_of(state, off) is None
    one: Any = SimpleNamespace(name="s1", data=SimpleNamespace(get=lambda name: True))
    assert push_shared.site_of(SimpleNamespace(inventory={"s1": 1}), one) is None
