"""Container images enter a site once and go from machine to machine, on real docker engines."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e import support
from tests.e2e.hub_case import in_background
from tests.fleet.spread_site import wait_for
from tests.lab import docker_llama, fleetfile
from tests.lab.host import run
from tests.lab.lab import Lab, start_lab
from tests.lab.machine import Machine

pytestmark = pytest.mark.lab

NAME = "tiny-llama-container"
UNIT = f"llm-{NAME}"
COPIES = "/srv/sparkwright/images/copies"
# What is left of a copy: the server, what it was told, archives.
LEFT = (
    "systemctl list-units --plain --no-legend 'sparkwright-spread*'; "
    f"find /run/sparkwright/spread {COPIES} -mindepth 1 2>/dev/null"
)


class Site:
    """Three machines that serve the same image."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        assert lab.docker
        self.lab, self.folder = lab, folder
        self.image = docker_llama.image(lab.docker.images)
        self.fleets = 0

    def fleet(self, pulled: bool = True, spread: bool = True) -> Path:
        """All machines serve the image, out of the registry or of a file."""
        self.fleets += 1
        place = self.folder / str(self.fleets)
        (place / "recipes").mkdir(parents=True)
        recipe = yaml.safe_load((fleetfile.RECIPES / f"{NAME}.yaml").read_text())
        recipe["flags"]["flash-attn"] = "on"  # PyYAML reads a bare one as true
        recipe["container"]["image"] = "lab-llama-pulled" if pulled else "lab-llama"
        (place / "recipes" / f"{NAME}.yaml").write_text(yaml.safe_dump(recipe))
        serve = {machine.name: [NAME] for machine in self.lab.machines}
        path = self.lab.write_fleet(place / "sparks.yaml", serve, {"spread": spread})
        fleet = yaml.safe_load(path.read_text())
        fleet["recipes"] = [str(place / "recipes")]
        path.write_text(yaml.safe_dump(fleet, sort_keys=False))
        return path

    @contextmanager
    def asked(self) -> Iterator[Counter[tuple[str, str]]]:
        """(what of the image, who) -> how often the upstream sent it in the block."""
        access = self.lab.upstream.access
        seen, found = len(access()), Counter[tuple[str, str]]()
        yield found
        for row in access()[seen:]:
            path = str(row["path"])
            of_image = "/blobs/" in path or path.startswith("/images/")
            if row["method"] == "GET" and of_image:
                found[path.rsplit("/", 1)[1], str(row["client"])] += 1

    def once(self, asked: Counter[tuple[str, str]], files: int) -> None:
        """So many files came once each, to one machine."""
        assert len({client for _, client in asked}) == 1, asked
        assert list(asked.values()) == [1] * files, asked

    def served(self) -> None:
        """Every machine has the image by its id, and its container answers from it."""
        for machine in self.lab.machines:
            about = json.loads(machine.ssh(f"sudo docker image inspect {self.image.id}").stdout)
            assert about[0]["Id"] == self.image.id
            in_use = machine.ssh(f"sudo docker inspect -f '{{{{.Image}}}}' {UNIT}").stdout
            assert in_use.strip() == self.image.id
            assert support.ask(machine, 8082, "tiny-llama").strip() == "SPARK"

    def nothing_left(self) -> None:
        for machine in self.lab.machines:
            assert machine.ssh(f"sudo sh -c {LEFT!r}", check=False).stdout == "", machine.name

    def lose(self, *machines: Machine) -> None:
        """The image is removed by hand."""
        for machine in machines:
            machine.ssh(f"sudo systemctl stop {UNIT}")
            machine.ssh(f"sudo docker image rm --force {self.image.id}")

    def offers(self) -> int:
        """How often a server was started on any machine."""
        words = "sudo journalctl -o cat --no-pager -u sparkwright-spread | grep -c ^Started"
        found = [machine.ssh(words, check=False).stdout.strip() for machine in self.lab.machines]
        return sum(map(int, found))


@pytest.fixture(scope="module")
def machines_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with start_lab(machines=3, docker=True) as lab:
        yield Site(lab, tmp_path_factory.mktemp("spread-image"))


@pytest.fixture
def site(machines_site: Site) -> Iterator[Site]:
    """The registry answers, and answers again after the test."""
    machines_site.lab.upstream.clear()
    yield machines_site
    machines_site.lab.upstream.clear()


def changes(summary: dict[str, Any]) -> list[str]:
    return [row["what"] for row in summary["changes"]]


def test_three_new_machines_ask_the_registry_once(site: Site) -> None:
    fleet = site.fleet()
    with site.asked() as asked:
        support.converge(fleet)
    site.once(asked, 2)  # a layer and the configuration
    site.served()
    site.nothing_left()
    before, seen = site.offers(), len(site.lab.upstream.access())
    again = support.converge(fleet)
    assert again["changed"] == 0, again["changes"]
    assert (site.offers(), support.served_bytes(site.lab, seen)) == (before, 0)


def test_a_machine_that_lost_it_copies_while_the_registry_is_off(site: Site) -> None:
    fleet = site.fleet()
    site.lose(site.lab.machines[1])
    site.lab.upstream.set("/v2/*", status=503)
    with site.asked() as asked:
        summary = support.converge(fleet)
    assert not asked
    assert any("not on the machine" in what for what in changes(summary)), summary
    site.served()
    site.nothing_left()


def test_a_lost_record_copies_nothing(site: Site) -> None:
    fleet = site.fleet()
    before = site.offers()
    site.lab.upstream.set("/v2/*", status=503)
    site.lab.machines[0].ssh("sudo rm -r /var/lib/sparkwright/images")
    support.converge(fleet)
    assert site.offers() == before
    site.served()


def test_a_file_of_the_lock_is_brought_once(site: Site) -> None:
    fleet = site.fleet(pulled=False)
    site.lose(*site.lab.machines)
    with site.asked() as asked:
        support.converge(fleet)
    site.once(asked, 1)
    site.served()
    site.nothing_left()


@contextmanager
def slow(machine: Machine) -> Iterator[None]:
    """What leaves it goes at 16 Mbit/s."""
    namespace = machine.setting.record.namespaces[machine.index]
    shaped = "tc qdisc {} dev eth0 root tbf rate 16mbit burst 32kb latency 400ms"
    run("ip", "netns", "exec", namespace, *shaped.format("add").split())
    try:
        yield
    finally:
        run("ip", "netns", "exec", namespace, *shaped.format("del").split())


def arriving(*machines: Machine) -> bool:
    """Whether more than a MiB of the image has come to one of them, and not all of it."""
    came = f"sudo find {COPIES} -path '*/.arriving/*' -type f -size +1M"
    return any(machine.ssh(came, check=False).stdout for machine in machines)


def test_a_laptop_that_dies_in_the_middle(site: Site) -> None:
    """The machines finish, and what was made for copying goes with the servers."""
    fleet = site.fleet()
    one, two, three = site.lab.machines
    site.lose(two, three)
    site.lab.upstream.set("/v2/*", status=503)
    words = [support.PROGRAM, "converge"]
    with slow(one):
        laptop = subprocess.Popen(
            words, cwd=support.PROJECT, env={**os.environ, "SPARKS_FILE": str(fleet)},
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        wait_for(lambda: arriving(two, three), "nothing came from the holder")
        os.killpg(laptop.pid, signal.SIGKILL)
        laptop.wait()
        assert one.ssh(f"sudo ls {COPIES}").stdout
        left = f"sudo sh -c {LEFT!r}"
        wait_for(lambda: not any(m.ssh(left, check=False).stdout for m in site.lab.machines),
                 "a server or a copy stays")  # fmt: skip
    summary = support.converge(fleet)
    assert not any("not on the machine" in what for what in changes(summary)), summary
    site.served()
    site.nothing_left()


def test_a_holder_that_is_killed_in_the_middle(site: Site) -> None:
    fleet = site.fleet()
    one, two, three = site.lab.machines
    site.lose(two, three)
    with slow(one), site.asked() as asked, in_background(fleet, patience_s=900) as result:
        wait_for(lambda: arriving(two, three), "nothing came from the holder")
        one.kill()
        text = result()
    one.boot()
    assert text.startswith("rc 2\n"), text
    assert "Traceback" not in text
    assert "the copy from spark-1 failed" in text
    site.once(asked, 2)
    # What the power cut left there is found by the next run, and all is well again.
    assert one.ssh(f"sudo ls {COPIES}").stdout
    summary = support.converge(fleet)
    assert any(what.startswith(f"{COPIES}/") for what in changes(summary)), summary
    site.served()
    site.nothing_left()


def test_switched_off_each_machine_asks_for_itself(site: Site) -> None:
    site.lose(*site.lab.machines)
    with site.asked() as asked:
        support.converge(site.fleet(spread=False))
    assert len({client for _, client in asked}) == len(site.lab.machines)
    site.served()
