"""Docker before anything is changed: the exact lines, and who holds a port."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from sparkwright import preflight_docker
from sparkwright.container_ports import owned
from sparkwright.errors import Problems
from sparkwright.fleet_endpoints import fleet_endpoints
from sparkwright.leftover_containers import LeftContainers
from sparkwright.members import Member
from sparkwright.resources import State
from tests.unit.container_case import DIGEST, IMAGE, WEB, docker_info, served
from tests.unit.machine_case import GIB, ITEM, RECIPE, data, item
from tests.unit.test_preflight import SPARK

SMI = {"rc": 0, "out": "NVIDIA-SMI version  : 580.95.05\nCUDA Version        : 13.0\n"}
ROOM = {"rc": 0, "out": f"{100 * GIB}\n"}
NVIDIA: dict[str, Any] = {"Runtimes": {"runc": {}, "nvidia": {}}}
GOOD: dict[str, State] = {
    "info": docker_info(**NVIDIA),
    "cdi": {"out": ""},
    "room": ROOM,
    "smi": SMI,
}
LOOK = "see: systemctl status docker"
UPDATE = "use the DGX dashboard's update, or another image; sparkwright never changes it"


def lines(
    answers: dict[str, State] | None = None,
    container: Any = None,
    image: dict[str, Any] | None = None,
    **settings: Any,
) -> list[str]:
    """What preflight says of docker."""
    items = [served(container) if container else served()]
    images = {"lab-image": dataclasses.replace(IMAGE, **(image or {}))}
    states = list({**GOOD, **(answers or {})}.values())
    found = Problems()
    preflight_docker.check(data(**settings), images, items, SPARK, states, found)
    return [str(problem) for problem in found]


def test_a_good_spark() -> None:
    assert lines() == []


def test_a_machine_without_containers_is_not_asked() -> None:
    assert preflight_docker.probes([ITEM]) == []
    found = Problems()
    preflight_docker.check(data(), {}, [ITEM], SPARK, [], found)
    assert len(found) == 0
    assert len(preflight_docker.probes([served()])) == len(GOOD)


NOT_THERE = "timeout: failed to run command '/usr/bin/docker': No such file or directory"
REFUSED = "Cannot connect to the Docker daemon at unix:///var/run/docker.sock."


@pytest.mark.parametrize(
    ("info", "told"),
    [
        ({"rc": 127, "out": "", "err": NOT_THERE},
         "docker: is not installed; DGX OS ships docker-ce and the NVIDIA container toolkit; "
         "install them again"),
        ({"rc": 124, "out": "", "err": ""}, f"docker: does not answer within 20 s; {LOOK}"),
        ({"rc": 1, "out": json.dumps({"ServerErrors": [REFUSED]}), "err": ""},
         f"docker: does not answer: {REFUSED}; start it, {LOOK}"),
        ({"rc": 1, "out": "", "err": "permission denied"},
         f"docker: does not answer: permission denied; start it, {LOOK}"),
        (docker_info(ServerVersion="19.03.15"),
         "docker: is 19.03.15, 20.10 or newer is needed; use the DGX dashboard's update"),
    ],
)  # fmt: skip
def test_docker_itself(info: State, told: str) -> None:
    assert lines({"info": info}) == [told]


def test_a_docker_without_the_gpu() -> None:
    bare = {"info": docker_info(Runtimes={"runc": {}})}
    told = (
        "docker: gives no GPU to containers: it has no runtime nvidia, and no CDI specification; "
        "sudo nvidia-ctk runtime configure --runtime=docker, then restart docker"
    )
    assert lines(bare) == [told]
    assert lines(bare, gpu_required=False) == []
    assert lines(bare, container_gpus="cdi") == []
    assert lines(bare, container=WEB) == []


@pytest.mark.parametrize(
    ("image", "told"),
    [
        ({"platform": "linux/amd64"},
         "is for linux/amd64, the machine is aarch64; resolve it for this machine's platform: "
         "sparkwright lock"),
        ({"cuda_min": "13.1"},
         f"needs a driver that speaks CUDA 13.1, this one speaks 13.0; {UPDATE}"),
        ({"cuda_min": "13.10"},
         f"needs a driver that speaks CUDA 13.10, this one speaks 13.0; {UPDATE}"),
        ({"cuda_min_driver": "590.48"},
         f"needs driver 590.48 or newer, this one is 580.95.05; {UPDATE}"),
    ],
)  # fmt: skip
def test_an_image_for_another_machine_or_driver(image: dict[str, Any], told: str) -> None:
    assert lines(image=image) == [f"image lab-image: {told}"]


@pytest.mark.parametrize(
    ("key", "version"),
    [
        ("cuda_min", "9.2"),
        ("cuda_min", "12.9"),
        ("cuda_min", "13.0"),
        ("cuda_min_driver", "580.95.05"),
        ("cuda_min_driver", "99"),
    ],
)
def test_an_image_that_the_driver_serves(key: str, version: str) -> None:
    assert lines(image={key: version}) == []


def test_room_for_images_that_are_missing() -> None:
    image = {"size": 30 * GIB}
    told = (
        "docker: 100.0 GiB free for images, 120.0 GiB are needed; remove images: "
        "docker image prune --all"
    )
    assert lines(image=image) == [told]
    have = {"room": {"out": f"{100 * GIB}\n{DIGEST.removeprefix('sha256:')}.json\n"}}
    assert lines(have, image=image) == []
    assert lines({"room": {"out": ""}}, image=image) == []


# --- ports, endpoints, left containers ---


def test_docker_s_holders_of_ports_are_named_by_their_unit() -> None:
    ports = {
        "ports": {
            "8080": ["llama-server (pid 5, docker-abc.scope)"],
            "8081": [
                "docker-proxy (pid 6, docker.service)",
                "docker-proxy (pid 7, docker.service)",
            ],
            "8082": ["docker-proxy (pid 8, docker.service)"],
            "22": ["sshd (pid 1, ssh.service)"],
            "9": ["x (pid 2, docker-def.scope)"],
        }
    }
    containers = {"out": "abc llm-a \nfff llm-b 127.0.0.1:8081->80/tcp, :::8081->80/tcp\nggg\n"}
    assert owned(ports, containers)["ports"] == {
        "8080": ["llama-server (pid 5, llm-a.service)"],
        "8081": ["docker-proxy (pid 6, llm-b.service)", "docker-proxy (pid 7, llm-b.service)"],
        "8082": ["docker-proxy (pid 8, docker.service)"],
        "22": ["sshd (pid 1, ssh.service)"],
        "9": ["x (pid 2, docker-def.scope)"],
    }
    assert owned(ports, {"rc": 127, "out": ""}) == ports


def test_containers_without_their_unit_are_removed() -> None:
    wanted = LeftContainers()
    assert [spec["kind"] for spec in wanted.probes()] == ["run"]
    states = [{"out": "llm-a d1 d1\nllm-b d1 d2\nllm-c d1 -\nleft - -\n"}]
    assert wanted.drift(states) == [
        "container llm-b: is of d1, its unit runs d2",
        "container llm-c: no unit of ours runs it",
        "container left: no unit of ours runs it",
    ]
    assert [command.shell for command in wanted.fix(states)] == [
        f"/usr/bin/docker rm --force {name}" for name in ("llm-b", "llm-c", "left")
    ]
    assert wanted.drift([{"rc": 127, "out": ""}]) == []


def peer(**changes: Any) -> dict[str, Any]:
    entry = {"recipe": "far", "port": None, "listen": None, "api_key": None, "state": "running"}
    serve = [{**entry, **changes.pop("serve", {})}]
    base = {"name": "spark-2", "address": "spark-2.lan", "listen": "0.0.0.0", "api_key": "open"}
    return {**base, "serve": serve, **changes}


FAR = dataclasses.replace(RECIPE, name="far", port=8002)
PAGE = served(WEB).recipe
OWN = [item("b", port=8001), item("any", port=8003, listen="0.0.0.0", api_key="open"),
       item("keyed", port=8004, api_key="generate"), item("nap", port=8005, state="standby"),
       served(WEB), item("six", port=8006, listen="::1")]  # fmt: skip


def test_a_page_reaches_the_models_of_its_machine() -> None:
    assert fleet_endpoints(OWN, [], {}) == (
        "http://127.0.0.1:8001/v1", "http://127.0.0.1:8003/v1", "http://[::1]:8006/v1",
    )  # fmt: skip


def test_a_part_that_nobody_asks_is_no_model() -> None:
    """Of a model on two sparks the head alone answers."""
    names, addresses = ("spark-1", "spark-2"), ("192.168.100.10", "192.168.100.11")
    parts = [item("b", port=8001, member=Member("pair-a", rank, names, addresses))
             for rank in (0, 1)]  # fmt: skip
    found = [fleet_endpoints([part], [], {}) for part in parts]
    assert found == [("http://127.0.0.1:8001/v1",), ()]


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({}, ("http://spark-2.lan:8002/v1",)),
        ({"serve": {"port": 9000}}, ("http://spark-2.lan:9000/v1",)),
        ({"serve": {"listen": "10.0.0.2"}}, ("http://10.0.0.2:8002/v1",)),
        ({"listen": None}, ()),
        ({"serve": {"listen": "127.0.0.1"}}, ()),
        ({"api_key": "generate"}, ()),
        ({"serve": {"state": "standby"}}, ()),
        ({"serve": {"recipe": "page"}}, ()),
        ({"serve": {"recipe": "unknown"}}, ()),
    ],
)
def test_and_those_of_the_fleet_that_listen_to_it(
    changes: dict[str, Any], found: tuple[str, ...]
) -> None:
    assert fleet_endpoints([], [peer(**changes)], {"far": FAR, "page": PAGE}) == found
