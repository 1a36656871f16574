"""The bandwidth test: both ends really over loopback, ib_write_bw's table, and the verdict."""

from __future__ import annotations

import dataclasses
import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sparkwright import fabric_bandwidth
from sparkwright.paths import PROJECT
from sparkwright.status_ask import Answer
from tests.unit.fabric_case import cluster, spark, with_addresses
from tests.unit.machine_case import program

SPEED = program("fabric_speed")
TEXT = (PROJECT / "files/opt/sparkwright/lib/fabric_speed.py").read_text()
CAGE = ("enp1s0f1np1", "enP2p1s0f1np1")
DATA: dict[str, Any] = {"fabric_pass_gb_s": 21.875, "fabric_speed_mbps": 200000}
# As perftest 4.5 prints it (its man page); not taken from a machine of ours.
TABLE = """
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 1048576    1716           97.41              97.28                0.011597
---------------------------------------------------------------------------------------
"""


def member(name: str, rank: int, perftest: bool = True) -> Answer:
    seen = with_addresses(spark(), rank, *CAGE)
    seen["tools"]["ib_write_bw"] = "/usr/bin/ib_write_bw" if perftest else ""
    return Answer(name, {**DATA, "cluster": cluster(rank=rank)}, seen)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def both(size: int, ports: list[int]) -> dict[str, Any]:
    """What the sender says; the other end runs as a program of its own, as on another machine."""
    common = {"rdma": False, "bytes": size, "seconds": 60, "wait_s": 30}
    halves = [["127.0.0.1", "127.0.0.1", "", port] for port in ports]
    spec = json.dumps({**common, "role": "serve", "halves": halves})
    server = subprocess.Popen([sys.executable, "-c", TEXT, spec], stdout=subprocess.PIPE, text=True)
    told: dict[str, Any] = SPEED.run({**common, "role": "send", "halves": halves})
    out, _ = server.communicate()
    assert json.loads(out)["why"] == ["" for _ in ports]
    return told


def test_two_streams_really_move_their_bytes() -> None:
    told = both(64 << 20, [free_port(), free_port()])
    assert told["why"] == ["", ""]
    assert all(rate > 0 for rate in told["halves"])


def test_an_end_that_is_not_there_is_told() -> None:
    spec = {"rdma": False, "bytes": 1, "seconds": 1, "wait_s": 0.1, "role": "send"}
    told = SPEED.run({**spec, "halves": [["127.0.0.1", "127.0.0.1", "", free_port()]]})
    assert told["halves"] == [0.0]
    assert "refused" in told["why"][0]


def test_perftests_average_is_read_as_gigabytes() -> None:
    assert SPEED.average(TABLE) == pytest.approx(97.28 / 8)
    with pytest.raises(OSError, match="told no average"):
        SPEED.average("Couldn't listen to port 29400")


def test_ib_write_bw_is_called_for_one_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in for perftest that prints its table and keeps its words."""
    fake = tmp_path / "ib_write_bw"
    fake.write_text(f"#!/bin/sh\necho \"$@\" >{tmp_path}/words\ncat <<'END'\n{TABLE}END\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    spec = {"rdma": True, "bytes": 1_800_000_000, "seconds": 5, "wait_s": 5, "role": "send"}
    halves = [["192.168.100.10", "192.168.100.11", "rocep1s0f1", 29400]]
    assert SPEED.run({**spec, "halves": halves}) == {"halves": [97.28 / 8], "why": [""]}
    assert (tmp_path / "words").read_text().strip() == (
        "-R -d rocep1s0f1 -p 29400 -s 1048576 -F -n 1716 --report_gbits "
        "--bind_source_ip 192.168.100.10 192.168.100.11"
    )


def test_both_ends_are_told_the_same_and_no_more_than_4_gb() -> None:
    found = fabric_bandwidth.questions(member("a", 0), member("b", 1))
    head, other = (json.loads(found[name][1]) for name in "ab")
    assert (head["role"], other["role"], head["rdma"], other["rdma"]) == (
        "send",
        "serve",
        True,
        True,
    )
    assert head["halves"] == [
        ["192.168.100.10", "192.168.100.11", "rocep1s0f1", 29400],
        ["192.168.101.10", "192.168.101.11", "roceP2p1s0f1", 29401],
    ]
    assert [row[:2] for row in other["halves"]] == [row[1::-1] for row in head["halves"]]
    assert head["bytes"] * len(head["halves"]) <= 4e9


def test_without_perftest_on_both_it_is_tcp() -> None:
    found = fabric_bandwidth.questions(member("a", 0), member("b", 1, perftest=False))
    assert json.loads(found["a"][1])["rdma"] is False


CASES: dict[str, tuple[list[float], list[str], bool, bool | None, str]] = {
    "well": ([11.57, 12.16], ["", ""], True, True, ""),
    "one half": ([11.9, 0.0], ["", "no route"], True, False,
                 "one half alone carries everything: no route"),
    "nothing": ([0.0, 0.0], ["refused", "refused"], True, False, "nothing came through: refused"),
    "degraded": ([0.8, 0.8], ["", ""], True, False, "a port that came up degraded moves about 13 "
                 "Gb/s: update its firmware, then switch the machine's power off and on"),
    "slow": ([8.0, 8.0], ["", ""], True, False,
             "an MTU that is small on one side costs most: see the check of the MTU"),
    "tcp": ([4.0, 4.0], ["", ""], False, None,
            "TCP cannot reach the mark; for RDMA: sudo apt-get install perftest"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_verdict_names_the_known_causes(case: str) -> None:
    rates, why, rdma, ok, hint = CASES[case]
    assert fabric_bandwidth.verdict(rates, why, rdma, DATA) == (ok, hint)


def test_the_check_says_how_much_and_by_what() -> None:
    a, b = member("a", 0), member("b", 1)
    told = Answer("a", a.data, {"halves": [11.57, 12.16], "why": ["", ""]})
    found = fabric_bandwidth.check(a, b, told, rdma=True)
    assert found.ok
    assert found.seen == "23.73 GB/s (11.57 + 12.16) by RDMA writes from a to b"
    assert found.wanted == "at least 21.875 GB/s"
    lost = fabric_bandwidth.check(a, b, dataclasses.replace(told, said=None, why="lost"), rdma=True)
    assert (lost.ok, lost.seen) == (None, "lost")


def test_beside_a_model_nothing_is_measured() -> None:
    """Case N10."""
    found = fabric_bandwidth.refused(["gpt-oss-120b on b"], member("a", 0))
    assert found.ok is None
    assert found.seen == "not measured while gpt-oss-120b on b runs there"
