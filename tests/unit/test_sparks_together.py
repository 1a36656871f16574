"""A model on several sparks: recipe keys, words, units and the digest that its parts share."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from sparkwright import pair, serve_plan, serving
from sparkwright.members import Member, engine_port, link_port, member_of, misplaced
from sparkwright.recipe_types import Spread
from sparkwright.resources import State
from sparkwright.rollout import Demand
from sparkwright.serve_turn import Look, Work, cluster_changes, work
from sparkwright.site import Planned
from sparkwright.units import render_unit
from tests.unit.machine_case import HOST, ITEM, PLACE
from tests.unit.recipe_case import errors, write

TWO = {"sparks": "2"}
ADDRESSES = ("192.168.100.10", "192.168.100.11")
BAD = {
    "alone": ({"tensor_parallel": "2"}, "tensor_parallel: says nothing to one machine; set sparks"),
    "alone, how": ({"distributed": "rpc"}, "distributed: says nothing to one machine; set sparks"),
    "layers": (
        {**TWO, "tensor_parallel": "2"},
        "tensor_parallel: llama.cpp gives each machine whole layers, over RPC; remove it",
    ),
    "not of llama.cpp": ({**TWO, "distributed": "ray"}, 'distributed: must be rpc, not "ray"'),
    "port": (
        {**TWO, "port": "12268"},
        "port: 12268 leaves no ports for the members, which are made from it; use at most 12267",
    ),
    "own flag": (
        {**TWO, "flags": '{rpc: "10.0.0.1:50052"}'},
        "flags/rpc: sparkwright sets this flag itself when a recipe says sparks; set sparks",
    ),
    "too many": ({"sparks": "9"}, "sparks: must be"),
}


@pytest.mark.parametrize(("keys", "message"), BAD.values(), ids=BAD)
def test_what_does_not_fit_is_refused(
    tmp_path: Path, keys: dict[str, str | None], message: str
) -> None:
    found = errors(write(tmp_path, **keys))
    assert any(line.startswith(f"recipes/x.yaml: {message}") for line in found), found


def part(rank: int, distributed: str = "rpc") -> Planned:
    """The lab's recipe on one of two sparks."""
    recipe = dataclasses.replace(ITEM.recipe, spread=Spread(2, 1, distributed))
    return dataclasses.replace(
        ITEM, recipe=recipe, member=Member("pair-a", rank, ("spark-1", "spark-2"), ADDRESSES)
    )


def linked(item: Planned, content: str | None = None, starts: int = 0) -> list[State]:
    """The link's file and unit as wanted, or with another content that runs as written.

    + starts: 0 when the link there starts the model, else 1, as grep says it
    """
    own = pair.link_unit(item)
    sha256 = hashlib.sha256((content or own.file.content).encode()).hexdigest()
    file = {"type": "file", "owner": "root", "group": "root", "mode": "0644", "sha256": sha256}
    known = "old" if content else own.digest
    unit = {"ActiveState": "active", "UnitFileState": "enabled", "digest": known}
    return [file, unit, {"rc": starts}]


def seen(item: Planned, others: dict[str, object] | None = None) -> serving.Seen:
    """Answers of a machine with build and weights, and a head's of its workers."""
    answers = {"out": json.dumps(others or {"apart": [], "files": {}})}
    head = [answers] if serving.is_head(item) else []
    return serving.seen(
        item,
        [
            {"type": "file", "text": '{"manifest_digest": "feed"}'},
            dict(HOST),
            {"type": "missing"},
            {"type": "missing"},
            {"ActiveState": "inactive", "UnitFileState": ""},
            {"rc": 0, "out": ""},
            {"type": "missing"},
            *head,
            {"rc": 0, "out": "{}"},
            *linked(item),
            {"type": "link", "target": "0123456789ab"},
            {"type": "missing"},
        ],
    )


def text(rank: int) -> str:
    item = part(rank)
    return render_unit(serving.service_of(item, [item], PLACE, seen(item)))


def test_the_data_of_a_machine_says_its_part() -> None:
    members = [{"name": n, "address": "x", "fabric": [a, "y"]}
               for n, a in zip(("spark-1", "spark-2"), ADDRESSES, strict=True)]  # fmt: skip
    data = {"name": "pair-a", "rank": 1, "members": members}
    found = member_of(data)
    assert found == Member("pair-a", 1, ("spark-1", "spark-2"), ADDRESSES)
    assert found is not None
    assert not found.is_head
    assert found.head == ADDRESSES[0]
    assert member_of({}) is None


def test_a_recipe_for_two_is_not_served_by_one() -> None:
    assert misplaced(ITEM.recipe, None) is None
    assert "wants 2 sparks together" in str(misplaced(part(0).recipe, None))
    assert "is for 1 spark(s), the cluster pair-a has 2" in str(
        misplaced(ITEM.recipe, part(0).member)
    )


def test_workers_run_the_rpc_server_on_the_fabric_alone() -> None:
    worker, head = text(1), text(0)
    port = engine_port(ITEM.port)
    assert "bin/ggml-rpc-server" in worker
    assert f"--host 192.168.100.11 --port {port}" in worker.replace(" \\\n    ", " ")
    assert f"--rpc 192.168.100.11:{port}" in head.replace(" \\\n    ", " ")
    assert "health_gate" not in worker
    assert "health_gate" in head


def test_no_part_starts_at_boot_and_only_the_head_starts_again_by_itself() -> None:
    worker, head = text(1), text(0)
    assert "[Install]" not in worker + head
    assert "Restart=no" in worker
    assert "KillMode=mixed" in worker
    assert "Restart=on-failure" in head
    gate = head.index("pair_link.py")
    assert head.index("memory_gate.py") < gate < head.index("\nExecStart=")


def test_the_parts_share_a_digest_and_another_build_is_another() -> None:
    said = [line for line in (text(0) + text(1)).splitlines() if "SPARKWRIGHT_PAIR" in line]
    assert len(said) == 2
    assert said[0] == said[1]
    head, worker = part(0), part(1)
    services = [serving.service_of(i, [i], PLACE, seen(i)) for i in (head, worker)]
    assert services[0].member is not None
    known = services[0].member.pair
    other = seen(head, {"apart": [], "files": {ADDRESSES[1]: "another"}})
    assert pair.refused(head, known, other.pair) == [
        f"spark-2 has another build, other weights or settings for {head.unit} (pair another, here "
        f"{known}); converge the whole cluster in one run"
    ]
    same = seen(head, {"apart": [], "files": {ADDRESSES[1]: known}})
    assert pair.refused(head, known, same.pair) == []


def test_a_worker_is_neither_stopped_nor_started_by_a_converge() -> None:
    item = part(1)
    found = seen(item)
    old = {"ActiveState": "active", "UnitFileState": "static", "digest": "old"}
    running = dataclasses.replace(found, unit=old)
    service = serving.service_of(item, [item], PLACE, running)
    wanted = serve_plan.plan(item, service, running)
    commands = " ".join(command.shell for command in wanted.commands)
    assert f"{item.unit}.service: runs old, not {service.digest}" in wanted.drift
    assert "systemctl stop" not in commands
    assert "restart" not in commands
    assert not wanted.start
    idle = serve_plan.plan(item, service, found)
    assert "systemctl stop" not in " ".join(command.shell for command in idle.commands)


def test_a_head_without_its_workers_is_started_again() -> None:
    item = part(0)
    found = seen(item, {"apart": ["192.168.100.11: gone"], "files": {}})
    service = serving.service_of(item, [item], PLACE, found)
    unit = {"ActiveState": "active", "UnitFileState": "static", "digest": service.digest}
    file = {"type": "file", "owner": "root", "group": "root", "mode": "0644"}
    running = dataclasses.replace(found, unit=unit, file=file)
    wanted = serve_plan.plan(item, service, running)
    assert f"{item.unit}.service: runs without its workers: 192.168.100.11: gone" in wanted.drift
    assert wanted.start


def test_the_link_tells_a_worker_its_head_and_a_head_its_workers() -> None:
    head, worker = pair.link_unit(part(0)).file.content, pair.link_unit(part(1)).file.content
    assert "--worker 192.168.100.11" in head
    assert "--start" in head
    assert "--own 192.168.100.11 --head 192.168.100.10" in worker.replace(" \\\n    ", " ")
    assert f"--port {link_port(ITEM.port)}" in head
    standby = dataclasses.replace(part(0), state="standby")
    assert "--start" not in pair.link_unit(standby).file.content


def test_a_link_is_closed_but_for_what_it_reads_of_its_model() -> None:
    text = pair.link_unit(part(1)).file.content
    caps = [line for line in text.splitlines() if line.startswith("CapabilityBoundingSet=")]
    assert caps == ["CapabilityBoundingSet=CAP_SYS_PTRACE"]
    assert "ProtectSystem=strict" in text
    # After a boot the directory is not there: a link that only names it as writable cannot start.
    assert "RuntimeDirectory=sparkwright" in text


def serving_pair(rank: int, state: str = "running", **more: Any) -> Work:
    """What a member has to do that runs what it should, its link aside."""
    item = dataclasses.replace(part(rank), state=state)
    service = serving.service_of(item, [item], PLACE, seen(item))
    sha256 = hashlib.sha256(render_unit(service).encode()).hexdigest()
    unit = {"ActiveState": "active", "UnitFileState": "static", "digest": service.digest}
    file = {**linked(item)[0], "sha256": sha256}
    found = dataclasses.replace(seen(item), unit=unit, file=file, **more)
    return work([item], PLACE, Look((), (found,), ({"type": "missing"},)))


@pytest.mark.parametrize("rank", [0, 1])
def test_another_text_of_the_link_is_a_change_of_all_members(rank: int) -> None:
    """It has the others' addresses and port: with one of them off it would stop what runs."""
    assert not cluster_changes(serving_pair(rank))
    wanted = serving_pair(rank, link=tuple(linked(part(rank), "another port")))
    assert cluster_changes(wanted)
    assert wanted.demand >= Demand.START
    ((item, plan),) = wanted.changes
    link = f"{item.unit}-pair.service"
    assert plan.drift[0] == f"/etc/systemd/system/{link}: content differs"
    assert [c.shell for c in plan.commands][-1] == f"systemctl restart {link}"
    assert not plan.start


@pytest.mark.parametrize("rank", [0, 1])
def test_a_link_that_is_only_not_there_is_mended_without_the_others(rank: int) -> None:
    file, unit, starts = linked(part(rank))
    gone = {**unit, "ActiveState": "inactive", "UnitFileState": "disabled"}
    wanted = serving_pair(rank, link=(file, gone, starts))
    assert not cluster_changes(wanted)
    assert wanted.demand == serving_pair(rank).demand
    link = f"{part(rank).unit}-pair.service"
    assert wanted.drift[:2] == (
        f"{link}: disabled, not enabled",
        f"{link}: inactive, not active",
    )
    commands = [c.shell for _, plan in wanted.changes for c in plan.commands]
    assert f"systemctl --quiet enable {link}" in commands
    assert f"systemctl restart {link}" in commands


@pytest.mark.parametrize("rank", [0, 1])
def test_a_heads_link_comes_first_and_a_workers_last(rank: int) -> None:
    """A head starts behind its own; a worker whose unit systemd refuses keeps the one it has."""
    item = part(rank)
    found = dataclasses.replace(seen(item), link=({"type": "missing"}, {"ActiveState": "inactive"}))
    wanted = serve_plan.plan(item, serving.service_of(item, [item], PLACE, found), found)
    commands = [c.shell for c in wanted.commands]
    link = commands.index(f"systemctl restart {item.unit}-pair.service")
    refuses = next(at for at, c in enumerate(commands) if "systemd-analyze verify" in c)
    assert (link < refuses) == (rank == 0)
    assert rank == 0 or link == len(commands) - 1
    assert wanted.joint


def test_a_pair_that_is_standby_now_is_stopped_by_its_head() -> None:
    """The link that is there starts the model; one for a standby pair does not."""
    standby = dataclasses.replace(part(0), state="standby")
    old = pair.link_unit(part(0)).file.content
    wanted = serving_pair(0, "standby", link=tuple(linked(standby, old)))
    assert wanted.demand == Demand.SWAP
    assert cluster_changes(wanted)
    assert wanted.unasked == ()
    ((item, plan),) = wanted.changes
    commands = [c.shell for c in plan.commands]
    link = commands.index(f"systemctl restart {item.unit}-pair.service")
    # A run that ends in between finds the old link, and with it the reason.
    assert link > commands.index(f"systemctl --quiet stop {item.unit}.service")
    by_hand = serving_pair(0, "standby", link=tuple(linked(standby, starts=1)))
    assert not any(plan.stop for _, plan in by_hand.changes)
    worker = serving_pair(1, "standby", link=tuple(linked(part(1), starts=1)))
    assert worker.changes == ()  # its link stops it when the head is gone
