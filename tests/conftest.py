"""Fixtures that boot lab machines; a test that uses them is marked `lab` by that."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from tests.lab import Lab, LabError, Machine, start_lab
from tests.lab.host import missing

LAB_FIXTURES = {"lab", "machine", "two_machines"}


def pytest_configure() -> None:
    """Let Ctrl-C reach what tests start: a shell's job in the background is told to ignore it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what boots machines, so that `-m "not lab"` leaves it out without a list of files."""
    for item in items:
        if LAB_FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker("lab")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail, never skip, a lab test where machines cannot boot: a green run must mean they did."""
    if item.get_closest_marker("lab"):
        found = missing()
        if found:
            reasons = "; ".join(found)
            pytest.fail(f'{reasons}; or leave lab tests out with -m "not lab"', pytrace=False)


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """The session's lab, without machines until a fixture below asks for one."""
    try:
        with start_lab(machines=0) as running:
            yield running
    except LabError as error:
        pytest.fail(str(error), pytrace=False)


def _fresh(lab: Lab, count: int) -> list[Machine]:
    """The first `count` machines, each as new."""
    used = lab.machines[:count]
    lab.upstream.clear()
    for machine in used:
        machine.reset()
    lab.add_machines(count - len(used))
    return lab.machines[:count]


@pytest.fixture(scope="module")
def machine(lab: Lab) -> Machine:
    """One machine, new for each test module."""
    return _fresh(lab, 1)[0]


@pytest.fixture(scope="module")
def two_machines(lab: Lab) -> list[Machine]:
    """Two machines, new for each test module; do not use it together with `machine`."""
    return _fresh(lab, 2)
