"""The unit of a container: golden text, what docker's client may do, and where secrets go."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from sparkwright import serving
from sparkwright.resources import State
from sparkwright.units import Service, render_unit
from tests.unit.container_case import (
    CONTAINER_PLACE,
    DIGEST,
    LLAMA,
    WEB,
    docker_info,
    image_states,
    served,
)
from tests.unit.machine_case import HOST

GOLDEN = Path(__file__).parents[1] / "golden" / "containers"
NVIDIA = docker_info(Runtimes={"runc": {}, "nvidia": {}})


def service(kind: str = "openai", api_key: str = "none") -> Service:
    """The service of a container recipe on a machine with its image."""
    wanted = served(WEB if kind == "web" else LLAMA, api_key=api_key)
    if kind == "vllm":
        container = dataclasses.replace(WEB, serves="vllm", port=0, volumes={})
        wanted = served(container, recipe={"flags": {}}, api_key=api_key)
    unit: State = {"ActiveState": "inactive", "UnitFileState": ""}
    missing: State = {"type": "missing"}
    stamp: State = {"type": "file", "text": '{"manifest_digest": "feed"}'}
    account: State = {"rc": 0, "out": "998\n997\nunlimited\n"}
    states = [stamp, dict(HOST), missing, missing, unit, {"rc": 0, "out": ""}, missing,
              account, NVIDIA, {"out": ""}, *image_states(digest=True)]  # fmt: skip
    return serving.service_of(wanted, [wanted], CONTAINER_PLACE, serving.seen(wanted, states))


@pytest.mark.parametrize("kind", ["openai", "web"])
def test_golden(kind: str) -> None:
    """A wanted change: `python -m tests.unit.test_container_units`, then read the difference."""
    assert render_unit(service(kind)) == (GOLDEN / f"{kind}.service").read_text()


def lines(kind: str = "openai", api_key: str = "none") -> list[str]:
    return render_unit(service(kind, api_key)).splitlines()


def test_the_engine_s_own_unit_is_needed_and_comes_first() -> None:
    found = lines()
    assert "Requires=docker.service" in found
    assert "After=docker.service" in found


def test_the_process_and_the_container_carry_the_same_digest() -> None:
    made = service()
    found = render_unit(made)
    assert f'Environment="SPARKWRIGHT_DIGEST={made.digest}"' in found
    assert f"--label sparkwright.digest={made.digest} \\" in found
    assert len(made.digest) == 12


def test_another_image_is_another_digest() -> None:
    place = dataclasses.replace(
        CONTAINER_PLACE,
        images={"lab-image": dataclasses.replace(
            CONTAINER_PLACE.images["lab-image"], digest=DIGEST.replace("d1", "d2"))},
    )  # fmt: skip
    wanted = served()
    states = [{"type": "missing"}, dict(HOST), {}, {}, {}, {}, {},
              {"out": "1 2"}, NVIDIA, {}, *image_states(digest=True)]  # fmt: skip
    one, two = (
        serving.service_of(wanted, [wanted], where, serving.seen(wanted, states)).digest
        for where in (CONTAINER_PLACE, place)
    )
    assert one != two


def test_limits_of_the_unit_that_would_bind_the_client_alone_are_not_there() -> None:
    found = "\n".join(lines())
    for word in ("MemoryMax=", "DeviceAllow=", "OOMScoreAdjust=", "User=", "LimitMEMLOCK="):
        assert word not in found
    assert "CapabilityBoundingSet=\n" in found


def test_the_stop_is_docker_s_and_systemd_waits_longer() -> None:
    found = lines()
    assert "    --grace-s 60" in found
    assert "TimeoutStopSec=90" in found
    assert "KillMode=mixed" in found


def test_vllm_gets_its_key_from_a_file_that_the_client_reads() -> None:
    found = lines("vllm", "generate")
    assert "    --env-file /etc/sparkwright/api-key.env \\" in found
    assert not [line for line in found if "EnvironmentFile" in line or "VLLM_API_KEY" in line]
    assert not [line for line in lines("vllm") if "--env-file" in line]


def test_directories_of_volumes_are_made_before_docker_wants_them() -> None:
    found = lines("web")
    at = found.index("ExecStartPre=+/usr/bin/install \\")
    assert found[at + 5 : at + 7] == [
        "    /srv/sparkwright/cache/llm-tiny \\",
        "    /srv/sparkwright/cache/llm-tiny/data",
    ]


if __name__ == "__main__":
    for name in ("openai", "web"):
        (GOLDEN / f"{name}.service").write_text(render_unit(service(name)))
