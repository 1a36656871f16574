"""Containers on a real docker engine: from nothing, again, drift, images that cannot be had."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e import support
from tests.lab import docker_image
from tests.lab.docker_llama import REPOSITORY
from tests.lab.lab import Lab, start_lab

pytestmark = pytest.mark.lab

NAME = "tiny-llama-container"
UNIT = f"llm-{NAME}"
PAGE = "page-container"
NOWHERE = f"sha256:{'0' * 64}"
Edit = Callable[[dict[str, Any]], None]


class Site:
    """A converged machine, which the tests of this module share in order."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab, self.folder, self.count = lab, folder, 0
        self.one = lab.machines[0]
        self.fleet = self.write()
        self.first = support.converge(self.fleet)

    def write(self, *serve: object, lock: Edit = lambda artifacts: None) -> Path:
        """A fleet that serves these (the container of llama-server by default).

        + lock: changes the artifacts of the lock
        """
        self.count += 1
        place = self.folder / str(self.count)
        place.mkdir()
        path = self.lab.write_fleet(place / "sparks.yaml", {"spark-1": list(serve) or [NAME]})
        file = place / "artifacts.lock.yaml"
        content = yaml.safe_load(file.read_text())
        lock(content["artifacts"])
        file.write_text(yaml.safe_dump(content))
        return path

    def process(self) -> support.Process:
        return support.process(self.one, f"{UNIT}.service")

    def docker(self, words: str) -> str:
        return self.one.ssh(f"sudo docker {words}").stdout.strip()

    def unit(self) -> str:
        return self.one.ssh(f"cat /etc/systemd/system/{UNIT}.service").stdout


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with start_lab(machines=1, docker=True) as lab:
        yield Site(lab, tmp_path_factory.mktemp("container"))


def image(site: Site, **changes: object) -> Edit:
    """A lock in which the image is another one."""
    return lambda artifacts: artifacts["lab-llama"].update(changes)


def drift(site: Site) -> list[str]:
    code, report = support.check(site.fleet)
    assert code == 1, report
    return support.drift_of(report)


def mended(site: Site) -> Mapping[str, Any]:
    """One converge mends it, and nothing is left."""
    summary = support.converge(site.fleet)
    code, report = support.check(site.fleet)
    assert (code, support.drift_of(report), report["problems"]) == (0, [], [])
    return summary


def test_the_first_run_loads_the_image_and_serves(site: Site) -> None:
    assert [row["what"] for row in site.first["accepted"]] == [f"{UNIT} at port 8082"]
    assert support.ask(site.one, 8082, "tiny-llama").strip() == "SPARK"
    archive = site.lab.upstream.sent("/images/*.tar")
    assert archive == docker_image_of(site).archive.stat().st_size
    assert site.docker(f"inspect -f '{{{{.HostConfig.LogConfig.Type}}}}' {UNIT}") == "none"
    lines = site.one.ssh("sudo journalctl -b -o cat | grep -c 'model loaded'").stdout.split()
    assert lines == ["1"], "the journal has the container's output once"


def docker_image_of(site: Site) -> docker_image.Image:
    from tests.lab import docker_llama

    assert site.lab.docker
    return docker_llama.image(site.lab.docker.images)


def test_the_second_run_changes_nothing(site: Site) -> None:
    before, seen = site.process(), len(site.lab.upstream.access())
    summary = support.converge(site.fleet)
    assert summary["changed"] == 0, summary["changes"]
    assert site.process() == before
    assert support.served_bytes(site.lab, seen) == 0


def test_the_unit_verifies_in_silence_and_the_label_is_the_digest(site: Site) -> None:
    path = f"/etc/systemd/system/{UNIT}.service"
    done = site.one.ssh(f"systemd-analyze verify {path} 2>&1")
    assert done.stdout == ""
    label = site.docker(f"inspect -f '{{{{index .Config.Labels \"sparkwright.digest\"}}}}' {UNIT}")
    environ = site.one.ssh(f"sudo cat /proc/{site.process().pid}/environ").stdout.split("\0")
    assert f"SPARKWRIGHT_DIGEST={label}" in environ


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (f"docker rm --force {UNIT}", f"{UNIT}.service: activating, not active"),
        (f"docker stop --time 20 {UNIT}", f"{UNIT}.service: inactive, not active"),
        (f"sed -i 's/--cap-drop ALL/--cap-drop CHOWN/' /etc/systemd/system/{UNIT}.service",
         f"/etc/systemd/system/{UNIT}.service: content differs"),
        (f"kill -9 $(systemctl show -p MainPID --value {UNIT})",
         f"{UNIT}.service: activating, not active"),
    ],
)  # fmt: skip
def test_drift_is_named_and_mended(site: Site, damage: str, named: str) -> None:
    site.one.ssh(f"sudo {damage}")
    site.one.ssh(f'while [ "$(systemctl is-active {UNIT})" = deactivating ]; do sleep 0.1; done')
    assert named in drift(site)
    assert not support.converge(site.fleet)["failed"]
    assert support.ask(site.one, 8082, "tiny-llama").strip() == "SPARK"


def test_a_container_of_nobody_and_a_lost_record_are_mended_without_a_restart(site: Site) -> None:
    before, seen = site.process(), len(site.lab.upstream.access())
    id = docker_image_of(site).id
    site.one.ssh("sudo rm -r /var/lib/sparkwright/images")
    site.docker(
        f"run --detach --label sparkwright=1 --name llm-gone --entrypoint /app/llama-server {id} "
        "--port 9999"
    )
    told = drift(site)
    assert "container llm-gone: no unit of ours runs it" in told
    assert any("does not vouch for it" in what for what in told)
    mended(site)
    assert site.docker("ps --all --format '{{.Names}}'") == UNIT
    assert site.process() == before
    assert support.served_bytes(site.lab, seen) == 0


@pytest.mark.parametrize("way", ["unknown", "broken", "foreign"])
def test_an_image_that_cannot_be_had_leaves_the_old_one_running(site: Site, way: str) -> None:
    folder = site.lab.upstream.registry_dir
    tar = docker_image.layer({"hello": b"no server in here"})
    made = docker_image.make(folder, REPOSITORY, [], tar, [way])
    edits: dict[str, dict[str, object]] = {
        "unknown": {"digest": NOWHERE, "image_id": NOWHERE},
        "broken": {"digest": made.digest, "image_id": made.id},
        "foreign": {"digest": made.digest, "image_id": NOWHERE},
    }
    told = {
        "unknown": "manifest unknown",
        "broken": "/app/llama-server in the image: ",
        "foreign": f"has id {made.id}, the lock says ",
    }[way]

    def lock(artifacts: dict[str, Any]) -> None:
        del artifacts["lab-llama"]["archive"]
        artifacts["lab-llama"].update(edits[way])

    before = site.process()
    assert told in support.refused(site.write(lock=lock))
    assert site.process() == before
    assert support.ask(site.one, 8082, "tiny-llama").strip() == "SPARK"


def test_a_removed_image_is_pulled_by_its_digest(site: Site) -> None:
    site.one.ssh(f"sudo systemctl stop {UNIT}")
    site.docker(f"image rm {docker_image_of(site).id}")
    pulled = site.write(lock=lambda artifacts: artifacts["lab-llama"].pop("archive"))
    support.converge(pulled)
    assert f"/{REPOSITORY}@{docker_image_of(site).digest} \\" in site.unit()
    assert support.ask(site.one, 8082, "tiny-llama").strip() == "SPARK"
    # The archive is not asked for where the image is already there by its digest.
    before, seen = site.process(), len(site.lab.upstream.access())
    mended(site)
    assert site.process() == before
    assert support.served_bytes(site.lab, seen) == 0


def test_a_key_is_never_in_a_command_line(site: Site) -> None:
    entry = {"recipe": NAME, "listen": "0.0.0.0", "api_key": "generate"}
    summary = support.converge(site.write(entry))
    assert [row["what"] for row in summary["accepted"]] == [f"{UNIT} at port 8082"]
    key = site.one.ssh("sudo cat /etc/sparkwright/api-key").stdout.strip()
    lines = site.one.ssh("ps -eo args").stdout
    assert len(key) > 20
    assert key not in lines
    answer = "curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1:8082/v1/models"
    assert site.one.ssh(answer).stdout == "401"
    assert site.one.ssh(f"{answer} -H 'Authorization: Bearer {key}'").stdout == "200"


def test_a_page_is_accepted_by_what_it_shows_and_knows_the_models(site: Site) -> None:
    fleet = site.write(NAME, PAGE)
    summary = support.converge(fleet)
    accepted = {row["what"] for row in summary["accepted"]}
    assert accepted == {f"{UNIT} at port 8082", f"llm-{PAGE} at port 8090"}
    env = json.loads(site.docker(f"inspect -f '{{{{json .Config.Env}}}}' llm-{PAGE}"))
    assert "OPENAI_API_BASE_URLS=http://127.0.0.1:8082/v1" in env
    assert "NVIDIA_VISIBLE_DEVICES=void" in env
    ports = site.docker(f"port llm-{PAGE}")
    assert ports == "8080/tcp -> 127.0.0.1:8090"
    assert support.converge(fleet)["changed"] == 0
    gone = [row["what"] for row in support.converge(site.fleet)["changes"]]
    assert f"llm-{PAGE}.service: no longer in the fleet" in gone


def test_a_restart_of_docker_brings_it_back(site: Site) -> None:
    before = site.process()
    site.one.ssh("sudo systemctl restart docker")
    wait = f'until [ "$(systemctl is-active {UNIT})" = active ]; do sleep 0.2; done'
    site.one.ssh(wait, timeout=60)
    assert site.process() != before
    assert support.ask(site.one, 8082, "tiny-llama").strip() == "SPARK"
    summary = mended(site)
    changed = [row["what"] for row in summary["changes"]]
    assert changed == [f"{UNIT}: has not answered its question since this start"]


def test_docker_that_does_not_run_is_said_before_anything_is_changed(site: Site) -> None:
    site.one.ssh("sudo systemctl stop docker.socket docker.service")
    said = support.refused(site.fleet)
    assert "spark-1: docker: does not answer: Cannot connect to the Docker daemon" in said
    assert "Nothing was changed on spark-1." in said
    site.one.ssh("sudo systemctl start docker.socket docker.service")
    mended(site)
