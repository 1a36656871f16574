"""What fabric_seen.py reads: a tree like a Spark's /sys, netplan files, and SSH's way in."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sparkwright.paths import PROJECT
from tests.unit.fabric_case import HALVES
from tests.unit.machine_case import program

fabric_seen = program("fabric_seen")
PROGRAM = PROJECT / "files/opt/sparkwright/lib/fabric_seen.py"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n")


@pytest.fixture
def fake_sysfs(tmp_path: Path) -> Path:
    """Stands in for /sys of a Spark with a cable in cage 1: no ConnectX-7 is here."""
    net, ib = tmp_path / "class/net", tmp_path / "class/infiniband"
    for name, (device, pci) in HALVES.items():
        real = tmp_path / "devices" / pci
        up = pci.endswith(".1")
        write(net / name / "mtu", "1500")
        write(net / name / "flags", "0x1003" if up else "0x1002")
        write(net / name / "address", f"4c:bb:47:00:00:{len(list(net.iterdir())):02x}")
        if up:
            write(net / name / "carrier", "1")
            write(net / name / "speed", "200000")
        (real / "net" / name).mkdir(parents=True)
        (net / name / "device").symlink_to(real)
        write(ib / device / "ports/1/state", "4: ACTIVE" if up else "1: DOWN")
        write(ib / device / "ports/1/phys_state", "5: LinkUp" if up else "3: Disabled")
        (ib / device / "device").symlink_to(real)
    write(net / "enP7s7/mtu", "1500")
    write(net / "enP7s7/speed", "-1")
    write(net / "lo/mtu", "65536")
    write(net / "bonding_masters", "")
    return tmp_path


def test_halves_are_read_from_sysfs(fake_sysfs: Path) -> None:
    found = fabric_seen.interfaces(
        fake_sysfs, {"enP7s7": ["10.0.0.1/24"]}, lambda name, mac: [name + mac[-2:]]
    )
    assert sorted(found) == sorted(["enP7s7", *HALVES])
    assert found["enP2p1s0f1np1"] == {
        "mtu": 1500,
        "on": True,
        "up": True,
        "speed": 200000,
        "pci": "0002:01:00.1",
        "addresses": [],
        "rdma": {"device": "roceP2p1s0f1", "state": "ACTIVE", "phys": "LinkUp"},
        "claimed": ["enP2p1s0f1np104"],
    }
    down = found["enp1s0f0np0"]
    assert (down["on"], down["up"], down["speed"]) == (False, False, 0)
    assert down["rdma"] == {"device": "rocep1s0f0", "state": "DOWN", "phys": "Disabled"}
    lan = found["enP7s7"]
    assert (lan["rdma"], lan["pci"], lan["speed"]) == (None, "", 0)
    assert lan["addresses"] == ["10.0.0.1/24"]


MAC = "4c:bb:47:01:02:03"
CLAIMS = {
    "its name": ("network:\n  ethernets:\n    fab0:\n      dhcp4: yes\n", True),
    "flow style": ("network: {ethernets: {fab0: {dhcp4: true}}}", True),
    "quoted": ('network:\n  ethernets:\n    "fab0":\n', True),
    "part of a bridge": ("bridges:\n  br0:\n    interfaces: [eth1, fab0]\n", True),
    "a pattern": ('match:\n  name: "fa*"\n', True),
    "its MAC": (f"match:\n  macaddress: {MAC.upper()}\n", True),
    "another name": ("network:\n  ethernets:\n    fab01:\n", False),
    "another pattern": ('match:\n  name: "en*"\n', False),
    "in a comment": ("network:\n  # fab0 is for the fabric\n  version: 2 # fab0\n", False),
    "a part of a word": ("network:\n  ethernets:\n    xfab0:\n", False),
}


@pytest.mark.parametrize("case", CLAIMS)
def test_a_netplan_file_that_configures_an_interface_is_named(case: str) -> None:
    text, hit = CLAIMS[case]
    found = fabric_seen.claimed({"/etc/netplan/x.yaml": text}, "fab0", MAC)
    assert found == (["/etc/netplan/x.yaml"] if hit else [])


def test_our_own_file_claims_nothing_and_run_hides_etc(tmp_path: Path) -> None:
    for place, text in {
        "etc/netplan/40-sparkwright-fabric.yaml": "ours",
        "run/netplan/40-sparkwright-fabric.yaml": "ours, on trial",
        "etc/netplan/50-cloud.yaml": "hidden",
        "run/netplan/50-cloud.yaml": "shown",
        "lib/netplan/00-default.yaml": "default",
    }.items():
        write(tmp_path / place, text)
    found = fabric_seen.netplan_files(tmp_path, "/etc/netplan/40-sparkwright-fabric.yaml")
    assert {path: text.strip() for path, text in found.items()} == {
        "/run/netplan/50-cloud.yaml": "shown",
        "/lib/netplan/00-default.yaml": "default",
    }


def test_ssh_is_found_above_sudo(tmp_path: Path) -> None:
    """Processes 9 (ours, below sudo), 8 (sudo) and 7 (the shell that sshd began)."""
    for pid, parent, environ in (
        (9, 8, b"A=1"),
        (8, 7, b""),
        (7, 1, b"B=2\0SSH_CONNECTION=c 1 s 22"),
    ):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / f"{pid}/environ").write_bytes(environ)
        (tmp_path / f"{pid}/stat").write_text(f"{pid} (a) b) S {parent} 1 1")
    assert fabric_seen.ssh_connection(9, tmp_path) == "c 1 s 22"
    assert fabric_seen.ssh_connection(1, tmp_path) == ""


def test_the_interface_of_the_address_that_was_called_is_ssh_s() -> None:
    addresses = {"eth5": ["203.0.113.7/24"], "fab0": ["203.0.113.77/24"], "eth6": ["fe80::1/64"]}
    assert "eth5" in fabric_seen.way_in("192.0.2.1 5 203.0.113.7 22", addresses)
    assert "fab0" not in fabric_seen.way_in("192.0.2.1 5 203.0.113.7 22", addresses)
    assert "eth6" in fabric_seen.way_in("fe80::9%eth6 5 fe80::1%eth6 22", addresses)


def test_the_program_answers_as_text_of_a_command() -> None:
    spec = json.dumps({"ours": "/etc/netplan/x.yaml", "venvs": "/nonexistent"})
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.read_text(), spec],
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    assert "lo" not in found["interfaces"]
    assert found["versions"]["kernel"]
    assert found["pings"] == found["trial"] == []


def test_versions_of_a_venv_are_told(tmp_path: Path) -> None:
    venv = tmp_path / "eugr-1"
    write(venv / "pyvenv.cfg", "home = /usr/bin\nversion = 3.12.3")
    for name in ("torch-2.9.0+cu130", "vllm-0.33.0", "nvidia_nccl_cu13-2.28.9", "other-1"):
        (venv / f"lib/python3.12/site-packages/{name}.dist-info").mkdir(parents=True)
    (tmp_path / "eugr").symlink_to(venv)
    found = fabric_seen.versions(tmp_path)
    assert {k: v for k, v in found.items() if k.startswith("eugr")} == {
        "eugr python": "3.12.3",
        "eugr torch": "2.9.0+cu130",
        "eugr vllm": "0.33.0",
        "eugr nvidia_nccl_cu13": "2.28.9",
    }
