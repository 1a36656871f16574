"""A bundle leaves the laptop once and goes from machine to machine, on machines with no way out."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.airgap.place import no_route
from tests.fleet.bundle_site import INCOMING, Shared, megabytes, plain, sent, until
from tests.lab.lab import start_lab

pytestmark = pytest.mark.lab

SLOW = "24mbit"  # 3 MB/s: a push of some tens of MB lasts


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    with start_lab(machines=3) as lab:
        yield Shared(lab, tmp_path_factory.mktemp("bundle"))


@pytest.fixture
def shared(machines: Shared) -> Shared:
    """New machines, as far as the bundle is concerned."""
    machines.forget()
    return machines


def in_the_middle(shared: Shared, child: subprocess.Popen[str]) -> tuple[str, str]:
    """(the only machine that still gets something from the laptop, one that has copied some)."""
    found: list[tuple[str, str]] = []

    def so() -> bool:
        receiving = shared.receivers()
        copied = [m.name for m in shared.lab.machines if m.name not in receiving
                  and shared.arrived(m) > 1]  # fmt: skip
        if len(receiving) == 1 and copied:
            found.append((receiving[0], copied[0]))
        return bool(found)

    until(so, child, "nothing was copied")
    return found[0]


def test_each_content_leaves_the_laptop_once(shared: Shared) -> None:
    for machine in shared.lab.machines:
        assert no_route(machine) == "", "the machine has a way out"
    before = shared.left()
    said = shared.push()
    now = shared.left()
    print(f"union {shared.size()}, left the laptop {now - before}", megabytes(said, "sent"),
          megabytes(said, "from other machines"))  # fmt: skip
    sent(before, now, shared.size())
    shared.good()
    shared.nothing_left()
    before = shared.left()
    said = shared.push()
    assert "MB sent" not in said
    assert "MB from other machines" not in said
    assert shared.left() - before < 4_000_000
    shared.nothing_left()


def test_one_after_the_other(shared: Shared) -> None:
    before = shared.left()
    shared.push("--serial")
    sent(before, shared.left(), shared.size())
    shared.good()
    shared.nothing_left()


def test_a_machine_that_has_its_part_gives_it(shared: Shared) -> None:
    shared.push("--limit", "spark-2")
    before = shared.left()
    said = shared.push()
    assert shared.left() - before < 4_000_000, said[-3000:]
    shared.good()
    shared.nothing_left()


@contextmanager
def dying(shared: Shared, which: int) -> Iterator[tuple[str, str]]:
    """A push in which a machine loses its power; (its name, what the run said).

    The others have everything afterwards. It is booted again behind the block.

    + which: 0 the one that the laptop sends to, 1 one that copies
    """
    with shared.uplink(SLOW), shared.running() as child:
        name = in_the_middle(shared, child)[which]
        shared.machines[name].kill()
        said = plain(child.communicate(timeout=500)[0])
    try:
        assert child.returncode, said[-3000:]
        assert "Traceback" not in said, said[-5000:]
        others = [other for other in shared.parts if other != name]
        shared.good(*others)
        shared.nothing_left(*others)
        yield name, said
    finally:
        shared.machines[name].boot()


def test_the_machine_that_gets_it_dies_in_the_middle(shared: Shared) -> None:
    with dying(shared, 0) as (first, said):
        assert f"the bundle: goes on without {first} (" in said, said[-5000:]
        print(f"{first} lost its power:", megabytes(said, "sent"), "MB sent by the laptop")
    before = shared.left()
    shared.push()
    others = [shared.parts[name] for name in shared.parts if name != first]
    held = {entry.sha256 for part in others for entry in part.values()}
    own = {e.sha256: e.size for e in shared.parts[first].values() if e.sha256 not in held}
    assert shared.left() - before < sum(own.values()) * 1.06 + 4_000_000
    shared.good()


def test_a_machine_that_copies_dies_in_the_middle(shared: Shared) -> None:
    with dying(shared, 1) as (last, said):
        assert last in said.rsplit("--> Results", 1)[-1]


def test_machines_that_do_not_reach_one_another_get_a_push_each(shared: Shared) -> None:
    with shared.apart():
        before = shared.left()
        said = shared.push()
    each = sum(shared.size(name) for name in shared.parts)
    sent(before, shared.left(), each)
    print(f"apart: parts {each}, left the laptop {shared.left() - before}")
    assert "the bundle: goes on without spark-" in said, said[-4000:]
    shared.good()
    shared.nothing_left()


def test_a_run_that_was_killed_goes_on_where_it_was(shared: Shared) -> None:
    with shared.uplink(SLOW), shared.running() as child:
        until(lambda: sum(map(shared.arrived, shared.lab.machines)) > 3, child, "nothing came")
        child.kill()
        child.wait()
    had: dict[str, int] = {}
    for machine in shared.lab.machines:
        rows = machine.ssh(f"sudo sh -c 'cd {INCOMING} && stat -c \"%n %s\" *'", check=False).stdout
        for name, size in (line.split() for line in rows.splitlines()):
            sha256 = name.removesuffix(".part")
            if len(sha256) == 64:  # else a lock
                had[sha256] = max(had.get(sha256, 0), int(size))
    before = shared.left()
    shared.push()
    rest = shared.size() - sum(had.values())
    print(f"killed: {sum(had.values())} were there, left the laptop {shared.left() - before}")
    assert had
    assert shared.left() - before < rest * 1.06 + 4_000_000, (rest, had)
    shared.good()
    shared.nothing_left()
