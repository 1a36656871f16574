"""A machine that the laptop cannot reach blocks its cluster, and not its neighbours.

Its fabric is well, so the pair goes on answering: only the laptop's way to the worker is cut.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e import support
from tests.fleet.test_pair import CLUSTER, PAIR, RECIPES
from tests.lab.lab import Lab, start_lab
from tests.lab.machine import Machine

pytestmark = pytest.mark.lab

ALONE = "tiny-llama-llamacpp"
ALONE_UNIT = f"llm-{ALONE}.service"
# Seconds: longer than a member's link lets another be silent (LOST_S of pair_units.py).
SILENT_S = 20
OLD, NEW = (8085, 8081), (8185, 8181)  # ports of the pair and of the neighbour


@dataclass(frozen=True)
class Site:
    """A pair and a neighbour, in the order of their numbers."""

    lab: Lab
    place: Path

    def fleet(self, ports: tuple[int, int], **fabric: Any) -> Path:
        """A fleet file with these ports, so that another pair of ports is a change of both."""
        path = self.place / f"{ports[0]}{'-'.join(fabric)}.yaml"
        cluster: dict[str, Any] = {
            "sparks": CLUSTER["sparks"],
            "fabric": {"interfaces": ["fab0", "fab1"], **fabric},
            "serve": [{"recipe": PAIR.recipe, "port": ports[0]}],
        }
        serve: dict[str, list[object]] = {"spark-3": [{"recipe": ALONE, "port": ports[1]}]}
        self.lab.write_fleet(path, serve, settings=support.settings(), clusters={"pair-a": cluster})
        values: dict[str, Any] = yaml.safe_load(path.read_text())
        values["recipes"].insert(0, str(RECIPES))
        path.write_text(yaml.safe_dump(values, sort_keys=False))
        return path

    @contextmanager
    def cut(self) -> Iterator[None]:
        """The laptop does not reach the worker, and nothing else is wrong with that."""
        self.worker.link_down()
        yield
        time.sleep(SILENT_S)  # a head whose link asked in vain would stop by then
        self.worker.link_up()
        self.worker.wait_ready()

    def serves_on(self, head: support.Process) -> None:
        """The pair serves what it served: the same process, with the old port."""
        assert support.process(self.head, PAIR.unit) == head
        assert support.ask(self.head, OLD[0], "tiny-pair") == "SPARK"

    @property
    def head(self) -> Machine:
        return self.lab.machines[0]

    @property
    def worker(self) -> Machine:
        return self.lab.machines[1]

    @property
    def neighbour(self) -> Machine:
        return self.lab.machines[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with start_lab(machines=3, fabric=2) as lab:
        found = Site(lab, tmp_path_factory.mktemp("unreachable"))
        support.converge(found.fleet(OLD))
        yield found


def test_an_unreachable_member_blocks_its_cluster_and_not_its_neighbours(site: Site) -> None:
    head = support.process(site.head, PAIR.unit)
    alone = support.process(site.neighbour, ALONE_UNIT)
    with site.cut():
        done = support.sparkwright(site.fleet(NEW), "converge")
    assert done.returncode == 2, done.stderr
    assert "spark-2 takes no part in this run" in done.stderr
    site.serves_on(head)
    # The neighbour got its change.
    assert support.process(site.neighbour, ALONE_UNIT) != alone
    assert support.ask(site.neighbour, NEW[1], "tiny-llama").strip() == "SPARK"


def test_another_network_waits_for_the_unreachable_member(site: Site) -> None:
    """What runs on the pair talks over the network that is there."""
    head = support.process(site.head, PAIR.unit)
    other = site.fleet(OLD, networks=["192.168.120.0/24", "192.168.121.0/24"])
    with site.cut():
        done = support.sparkwright(other, "converge", "--limit", "spark-1", "--limit", "spark-2")
    assert done.returncode == 2, done.stderr
    assert "the network of cluster pair-a changes on all of its members together" in done.stderr
    site.serves_on(head)


def test_members_that_come_one_after_the_other_keep_what_they_serve(site: Site) -> None:
    """With --serial the head's turn is over before its worker's begins."""
    head = support.process(site.head, PAIR.unit)
    done = support.pyinfra(site.fleet(NEW), "--serial")
    assert done.returncode == 1, done.stderr
    assert "cluster pair-a: spark-2 has another turn than this machine" in done.stderr
    time.sleep(SILENT_S)
    site.serves_on(head)


def test_with_the_member_back_one_converge_mends_the_cluster_alone(site: Site) -> None:
    alone = support.process(site.neighbour, ALONE_UNIT)
    support.converge(site.fleet(NEW))
    assert support.ask(site.head, NEW[0], "tiny-pair") == "SPARK"
    assert support.process(site.neighbour, ALONE_UNIT) == alone
    assert support.converge(site.fleet(NEW))["changed"] == 0
