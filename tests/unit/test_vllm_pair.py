"""Engine vllm on two sparks: words, units and what is refused, for mp and for Ray."""

from __future__ import annotations

import dataclasses
import hashlib

import pytest

from sparkwright import engine_vllm, pair, serving, unit_plan
from sparkwright.engines import Launch
from sparkwright.members import Member
from sparkwright.recipe_types import Spread
from sparkwright.site import Planned
from sparkwright.units import Service, render_unit
from tests.unit.machine_case import PLACE
from tests.unit.vllm_case import STOCK, TRITON, VENV, item, recipe, venv

ADDRESSES = ("192.168.100.10", "192.168.100.11")
HERE = f"/opt/sparkwright/vllm/stock-{VENV}/bin"
RAY = {"rc": 2, "out": f"{TRITON['out']}/opt/sparkwright/vllm/stock/bin/ray\n"}
IN_A_CLUSTER = dataclasses.replace(
    PLACE, cluster={"networks": ["192.168.100.0/24", "192.168.101.0/24"]}
)


def part(rank: int, distributed: str) -> Planned:
    """A recipe of ours on one of two sparks."""
    one = item(recipe("gpt-oss-120b"))
    wanted = dataclasses.replace(one.recipe, spread=Spread(2, 2, distributed), port=8002)
    member = Member("pair-a", rank, ("spark-1", "spark-2"), ADDRESSES)
    return dataclasses.replace(one, recipe=wanted, port=8002, member=member)


def launched(wanted: Planned) -> Launch:
    """How it runs with a build that has Ray."""
    found = engine_vllm.installed(wanted, PLACE, venv(STOCK, "stock", RAY))
    return engine_vllm.launch(wanted, PLACE, found)


def service(wanted: Planned) -> Service:
    """The wanted service, but for what the machine's memory and fabric have to say."""
    launch = launched(wanted)
    unit = serving._service(wanted, IN_A_CLUSTER, launch, ())
    return dataclasses.replace(
        unit, digest="d", member=pair.member_unit(wanted, IN_A_CLUSTER, "shared")
    )


def lines(wanted: Planned) -> list[str]:
    return render_unit(service(wanted)).splitlines()


@pytest.mark.parametrize("rank", [0, 1])
def test_mp_is_the_same_command_but_for_the_rank(rank: int) -> None:
    argv = launched(part(rank, "mp")).argv
    at = argv.index("--tensor-parallel-size")
    assert argv[at : at + 4] == (
        "--tensor-parallel-size", "2", "--distributed-executor-backend", "mp",
    )  # fmt: skip
    assert argv[at + 4 : at + 12] == (
        "--nnodes", "2", "--node-rank", str(rank),
        "--master-addr", "192.168.100.10", "--master-port", "28502",
    )  # fmt: skip
    assert argv[at + 12 :] == (() if rank == 0 else ("--headless",))


def test_over_ray_the_worker_is_ray_and_the_head_says_nothing_of_ranks() -> None:
    head, worker = launched(part(0, "ray")), launched(part(1, "ray"))
    assert "--nnodes" not in head.argv
    assert head.env["RAY_ADDRESS"] == worker.env["RAY_ADDRESS"] == "192.168.100.10:28502"
    assert worker.argv[:6] == (
        f"{HERE}/ray", "start", "--address", "192.168.100.10:28502",
        "--node-ip-address", "192.168.100.11",
    )  # fmt: skip
    assert head.refused == worker.refused == ()


def test_rays_head_comes_first_and_shares_its_tmp_with_vllm() -> None:
    """Ray's sockets are below /tmp/ray, and both units have PrivateTmp=yes."""
    wanted = part(0, "ray")
    ray = f"{wanted.unit}-ray.service"
    for tie in ("Requires", "After", "JoinsNamespaceOf"):
        assert f"{tie}={ray}" in lines(wanted)
    (own,) = pair.beside(wanted, service(wanted))
    text = own.file.content.splitlines()
    assert "PrivateTmp=yes" in text
    assert "PrivateTmp=yes" in lines(wanted)
    assert f"PartOf={wanted.unit}.service" in text
    joined = own.file.content.replace(" \\\n    ", " ")
    assert f"\nExecStart={HERE}/ray start --head --port 28502 " in joined


@pytest.mark.parametrize("distributed", ["mp", "ray"])
def test_what_nobody_asks_is_reached_over_the_fabric_alone(distributed: str) -> None:
    """Ray has no password and listens everywhere; the head must answer the house."""
    closed = ["IPAddressDeny=any", "IPAddressAllow=localhost 192.168.100.0/24 192.168.101.0/24"]
    worker, head = lines(part(1, distributed)), lines(part(0, distributed))
    at = worker.index(closed[0])
    assert worker[at : at + 2] == closed
    assert not any(line.startswith("IPAddress") for line in head)
    for own in pair.beside(part(0, distributed), service(part(0, distributed))):
        assert closed[0] in own.file.content
        assert closed[1] in own.file.content


@pytest.mark.parametrize("distributed", ["mp", "ray"])
def test_the_head_starts_again_also_after_an_end_without_error(distributed: str) -> None:
    """`vllm serve` ends with 0 when its engine has died; the rest is started behind the head."""
    head = part(0, distributed)
    assert "Restart=always" in lines(head)
    assert "Restart=no" in lines(part(1, distributed))
    for own in pair.beside(head, service(head)):
        assert "\nRestart=no\n" in own.file.content


def test_a_profile_without_ray_is_refused_before_anything_stops() -> None:
    wanted = part(0, "ray")
    found = engine_vllm.installed(wanted, PLACE, venv(STOCK))
    assert engine_vllm.launch(wanted, PLACE, found).refused == (
        "distributed: ray needs Ray's wheel, which the profile stock has not; use a profile with "
        "it, or set distributed: mp",
    )
    mp = part(0, "mp")
    assert engine_vllm.launch(mp, PLACE, found).refused == ()
    nothing = engine_vllm.installed(wanted, PLACE, venv(None))
    assert engine_vllm.launch(wanted, PLACE, nothing).refused == ()


@pytest.mark.parametrize(
    ("changes", "restart"),
    [({}, True), ({"NeedDaemonReload": "yes"}, False)],
    ids=["in force", "not read by systemd yet"],
)
def test_another_text_of_rays_head_restarts_the_model_behind_it(
    changes: dict[str, str], restart: bool
) -> None:
    """The model's own unit is as wanted, and the processes of its ranks are Ray's children."""
    head = part(0, "ray")
    wanted = service(head)
    text = hashlib.sha256(render_unit(wanted).encode()).hexdigest()
    own = {"type": "file", "owner": "root", "group": "root", "mode": "0644"}
    nothing, apart = {"type": "missing"}, {"out": '{"apart": [], "files": {}}'}
    found = serving.Seen(
        nothing, {}, nothing, {**own, "sha256": text},
        {"ActiveState": "active", "UnitFileState": "static", "digest": "d"},
        {"out": ""}, nothing, (), apart,
        ({**own, "sha256": "edited"}, {"ActiveState": "active", **changes}),
    )  # fmt: skip
    plan = unit_plan.compared(head, wanted, found)
    assert plan.drift[0] == f"/etc/systemd/system/{head.unit}-ray.service: content differs"
    assert plan.start == restart
    commands = " ".join(command.shell for command in plan.commands)
    assert (f"restart --no-block {head.unit}.service" in commands) == restart
