"""A change of the network on trial with the kernel's real interfaces, in a network of its own.

Only netplan is a stand-in: it does with `ip` what the test says.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sparkwright.paths import PROJECT

pytestmark = pytest.mark.lab  # needs root: a network namespace

APPLY = PROJECT / "files/opt/sparkwright/lib/fabric_apply.py"
SETUP = """
for name in lan0 fab0; do
  ip link add $name type veth peer name p$name; ip link set $name up; ip link set p$name up
done
sleep 0.2
ip address add 10.55.0.5/24 dev lan0
ip route add default via 10.55.0.1 dev lan0
ip route add 10.78.0.1/32 dev lan0
ip route add 10.77.0.0/16 via 10.78.0.1 dev lan0 metric 50
"""
LOOK = "ip -4 -json address | tee {0}.addresses >/dev/null; ip -4 route | sort >{0}.routes"
FABRIC = "ip link set fab0 mtu 9000 up; ip address add 192.168.100.10/24 dev fab0"


class Trial:
    """One run of the program after `netplan apply` did this, confirmed beforehand or never."""

    def __init__(self, place: Path, before: str, apply: str, confirmed: bool) -> None:
        self.place = place
        file = place / "etc/40-x.yaml"
        for name in ("bin", "etc", "run", "meet/confirm"):
            (place / name).mkdir(parents=True)
        fake_netplan = place / "bin/netplan"
        fake_netplan.write_text(f"#!/bin/sh\n[ $1 = apply ] && [ -e {place}/run/40-x.yaml ] || "
                                f"exit 0\n{apply}\n")  # fmt: skip
        fake_netplan.chmod(0o755)
        spec = {
            "token": "t1", "text": "new", "file": str(file), "ssh": ["lan0"], "settle_s": 2,
            "interfaces": [["fab0", "192.168.100.10/24", 9000]], "confirm_s": 0.5,
            "place": str(place / "meet"), "trial": str(place / "run"),
        }  # fmt: skip
        (place / "spec.json").write_text(json.dumps(spec))
        if confirmed:
            (place / "meet/confirm/t1").touch()
        look = [LOOK.format(place / when) for when in ("before", "after")]
        program = f"{sys.executable} {APPLY} {place}/spec.json >{place}/log 2>&1"
        script = f"{SETUP}\n{before}\n{look[0]}\n{program}; echo $? >{place}/rc\n{look[1]}\n"
        path = f"{place}/bin:{os.environ['PATH']}"
        subprocess.run(["unshare", "--net", "sh", "-c", script], check=True,
                       env={**os.environ, "PATH": path})  # fmt: skip
        self.state = (place / "meet/state").read_text().strip()
        self.log = (place / "log").read_text()

    def network(self, when: str) -> tuple[dict[str, tuple[int, list[str]]], list[str]]:
        """MTU and addresses of each interface, and all routes."""
        found = json.loads((self.place / f"{when}.addresses").read_text())
        links = {
            link["ifname"]: (link["mtu"], [a["local"] for a in link["addr_info"]]) for link in found
        }
        return links, (self.place / f"{when}.routes").read_text().splitlines()


CUTS = {
    "another address": "ip address flush dev lan0; ip address add 10.55.0.99/24 dev lan0",
    "one more address first": "ip address flush dev lan0; ip address add 10.55.0.99/24 dev lan0; "
    "ip address add 10.55.0.5/24 dev lan0",
    "no address": "ip address flush dev lan0",
    "switched off": "ip link set lan0 down",
    "another MTU": "ip link set lan0 mtu 1400",
    "no routes": "ip route flush dev lan0 proto boot",
}


@pytest.mark.parametrize("cut", CUTS)
def test_whatever_cut_ssh_is_put_back(tmp_path: Path, cut: str) -> None:
    trial = Trial(tmp_path, "", f"{FABRIC}; {CUTS[cut]}", confirmed=False)
    assert trial.state.startswith("back t1 nobody could log in anew"), trial.log
    assert trial.network("after") == trial.network("before"), trial.log
    assert "10.77.0.0/16 via 10.78.0.1 dev lan0 metric 50 " in trial.network("before")[1]


def test_a_good_change_stays(tmp_path: Path) -> None:
    trial = Trial(tmp_path, "", FABRIC, confirmed=True)
    assert trial.state == "kept t1", trial.log
    links, _ = trial.network("after")
    assert links["fab0"] == (9000, ["192.168.100.10"])
    assert links["lan0"] == trial.network("before")[0]["lan0"]


def test_an_older_address_of_the_same_network_goes_without_ours(tmp_path: Path) -> None:
    trial = Trial(tmp_path, "ip address add 192.168.100.50/24 dev fab0", FABRIC, confirmed=True)
    assert trial.state == "kept t1", trial.log
    assert trial.network("after")[0]["fab0"] == (9000, ["192.168.100.10"])
