"""A change of the network on trial, with stand-ins for `ip` and `netplan`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from sparkwright.paths import PROJECT

LIB = PROJECT / "files/opt/sparkwright/lib"
OLD = "# Managed by sparkwright\nnetwork:\n  ethernets:\n    fab9:\n      mtu: 9000\n"
NEW = "# Managed by sparkwright\nnetwork:\n  ethernets:\n    fab0:\n      mtu: 9000\n"
# Stand in for iproute2 and netplan: links live in a JSON file. `netplan apply` makes of them what
# the test prepared: apply.json for the first call, back.json for the second.
FAKE_IP = """
import json, sys, pathlib
place = pathlib.Path(__file__).parent / "links.json"
links = json.loads(place.read_text())
words = sys.argv[1:]
if words == ["-json", "address"]:
    print(json.dumps(list(links.values())))
elif words[:3] == ["route", "show", "dev"]:
    print("default via 10.0.0.1" if words[3] == "eth0" else "")
else:
    with (place.parent / "log").open("a") as log:
        log.write("ip " + " ".join(words) + "\\n")
    link = links.get(words[words.index("dev") + 1] if "dev" in words else words[2])
    if words[:2] == ["link", "set"] and words[3] == "mtu":
        link["mtu"] = int(words[4])
    elif words[0] == "address":
        local, _, length = words[2].partition("/")
        link["addr_info"] = [a for a in link["addr_info"] if a["local"] != local]
        if words[1] == "replace":
            link["addr_info"].append({"local": local, "prefixlen": length, "scope": "global"})
    place.write_text(json.dumps(links))
"""
FAKE_NETPLAN = """
import pathlib, subprocess, sys
here = pathlib.Path(__file__).parent
with (here / "log").open("a") as log:
    log.write("netplan " + sys.argv[1] + "\\n")
if (here / ("refuse-" + sys.argv[1])).exists():
    sys.exit("Error in network definition")
late = here / "late.json"
if late.exists() and not (here / "apply.json").exists():
    # networkd: what it does comes after netplan has returned.
    subprocess.Popen(["sh", "-c", f"sleep 1; mv {late} {here}/links.json"])
for name in ("apply.json", "back.json") if sys.argv[1] == "apply" else ():
    if (here / name).exists():
        (here / name).replace(here / "links.json")
        break
"""


def link(name: str, mtu: int = 1500, *addresses: str) -> dict[str, Any]:
    info = [{"local": a.split("/")[0], "prefixlen": 24, "scope": "global"} for a in addresses]
    return {"ifname": name, "mtu": mtu, "flags": ["UP"], "addr_info": info}


def links(*made: dict[str, Any]) -> str:
    return json.dumps({each["ifname"]: each for each in made})


BEFORE = links(link("eth0", 1500, "10.0.0.5/24"), link("fab0"), link("fab9", 9000, "10.9.0.1/24"))
GOOD = links(link("eth0", 1500, "10.0.0.5/24"), link("fab0", 9000, "192.168.100.10/24"),
             link("fab9", 9000, "10.9.0.1/24"))  # fmt: skip
CUT = links(link("eth0", 1500), link("fab0", 9000, "192.168.100.10/24"),
            link("fab9", 9000, "10.9.0.1/24"))  # fmt: skip


class Bench:
    """One machine's files below a folder."""

    def __init__(self, place: Path, apply: str) -> None:
        self.place = place
        self.file = place / "etc/netplan/40-sparkwright-fabric.yaml"
        self.trial = place / "run/netplan" / self.file.name
        for name, text in (("ip", FAKE_IP), ("netplan", FAKE_NETPLAN)):
            path = place / name
            path.write_text(f"#!{sys.executable}\n{text}")
            path.chmod(0o755)
        (place / "links.json").write_text(BEFORE)
        (place / "apply.json").write_text(apply)
        (place / "meet/confirm").mkdir(parents=True)
        self.file.parent.mkdir(parents=True)

    def start(self, confirm_s: float = 0.5) -> subprocess.Popen[str]:
        spec = {
            "token": "t1", "text": NEW, "file": str(self.file), "ssh": ["eth0"],
            "interfaces": [["fab0", "192.168.100.10/24", 9000]], "confirm_s": confirm_s,
            "settle_s": 0.5, "place": str(self.place / "meet"), "trial": str(self.trial.parent),
        }  # fmt: skip
        path = self.place / "spec.json"
        path.write_text(json.dumps(spec))
        env = {**os.environ, "PATH": f"{self.place}:{os.environ['PATH']}"}
        return subprocess.Popen(
            [sys.executable, str(LIB / "fabric_apply.py"), str(path)], env=env, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def state(self) -> str:
        path = self.place / "meet/state"
        return path.read_text().strip() if path.exists() else ""

    def confirm(self) -> None:
        (self.place / "meet/confirm/t1").touch()

    def log(self) -> list[str]:
        return (self.place / "log").read_text().splitlines()

    def addresses(self, name: str) -> list[str]:
        info = json.loads((self.place / "links.json").read_text())[name]["addr_info"]
        return [a["local"] for a in info]


def until(program: subprocess.Popen[str], bench: Bench, word: str) -> None:
    while not bench.state().startswith(word):
        assert program.poll() is None, program.communicate()
        time.sleep(0.02)


def test_a_confirmed_change_stays_and_what_is_no_longer_ours_goes(tmp_path: Path) -> None:
    bench = Bench(tmp_path, GOOD)
    bench.file.write_text(OLD)
    program = bench.start(confirm_s=60)
    until(program, bench, "applied t1")
    assert bench.trial.read_text() == NEW
    assert bench.file.read_text() == OLD, "until it is confirmed, a power cut brings this back"
    bench.confirm()
    assert program.wait() == 0, program.communicate()
    assert bench.state() == "kept t1"
    assert bench.file.read_text() == NEW
    assert bench.file.stat().st_mode & 0o777 == 0o600
    assert not bench.trial.exists()
    assert bench.addresses("fab9") == [], "our file named it until now"
    assert bench.addresses("fab0") == ["192.168.100.10"]


def test_nobody_gets_in_again_and_everything_is_put_back(tmp_path: Path) -> None:
    bench = Bench(tmp_path, CUT)
    bench.file.write_text(OLD)
    program = bench.start()
    assert program.wait() == 1
    assert bench.state() == "back t1 nobody could log in anew within 0.5 s of netplan apply"
    assert bench.file.read_text() == OLD
    assert not bench.trial.exists()
    assert bench.addresses("eth0") == ["10.0.0.5"], "another file's change had cut SSH"
    assert bench.addresses("fab0") == []
    assert bench.addresses("fab9") == ["10.9.0.1"]
    assert [line for line in bench.log() if line.startswith("netplan")] == [
        "netplan generate", "netplan apply", "netplan apply",
    ]  # fmt: skip
    assert "ip route replace default via 10.0.0.1 dev eth0" in bench.log()


def test_what_comes_late_is_put_back_too(tmp_path: Path) -> None:
    """networkd carries the second `netplan apply` out after that has returned."""
    bench = Bench(tmp_path, CUT)
    (tmp_path / "late.json").write_text(CUT)
    assert bench.start().wait() == 1
    assert not (tmp_path / "late.json").exists()
    assert bench.addresses("eth0") == ["10.0.0.5"]
    assert bench.addresses("fab0") == []


def test_a_stop_on_the_way_back_waits_for_its_end(tmp_path: Path) -> None:
    bench = Bench(tmp_path, CUT)
    program = bench.start()
    while not (tmp_path / "log").exists() or bench.log().count("netplan apply") < 2:
        assert program.poll() is None, program.communicate()
        time.sleep(0.02)
    program.terminate()
    assert program.wait() == 1
    assert bench.state() == "back t1 nobody could log in anew within 0.5 s of netplan apply"
    assert bench.addresses("eth0") == ["10.0.0.5"]


def test_a_file_that_netplan_refuses_is_never_applied(tmp_path: Path) -> None:
    bench = Bench(tmp_path, GOOD)
    (tmp_path / "refuse-generate").touch()
    assert bench.start().wait() == 1
    assert bench.state() == "back t1 netplan generate: Error in network definition"
    assert bench.log() == ["netplan generate"]
    assert not bench.trial.exists()
    assert not bench.file.exists()


def test_an_apply_that_fails_is_taken_back(tmp_path: Path) -> None:
    bench = Bench(tmp_path, GOOD)
    (tmp_path / "refuse-apply").touch()
    assert bench.start().wait() == 1
    assert bench.state() == "back t1 netplan apply: Error in network definition"
    assert not bench.trial.exists()


def test_a_stop_takes_the_change_back(tmp_path: Path) -> None:
    bench = Bench(tmp_path, GOOD)
    program = bench.start(confirm_s=60)
    until(program, bench, "applied")
    program.terminate()
    assert program.wait() == 1
    assert bench.state() == "back t1 it was stopped"
    assert bench.addresses("fab0") == []


@pytest.mark.parametrize("mtu", [1500, 9000])
def test_an_interface_that_does_not_come_up_as_wanted_is_told(tmp_path: Path, mtu: int) -> None:
    bench = Bench(tmp_path, links(link("eth0"), link("fab0", mtu), link("fab9")))
    assert bench.start().wait() == 1
    assert bench.state() == (
        f"back t1 netplan was applied and fab0 has no address and MTU {mtu}, not "
        "192.168.100.10/24 and 9000; is its cable in?"
    )
