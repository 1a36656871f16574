"""The fabric of two lab machines: real netplan and systemd-networkd, cables of their own.

Not shown here: RDMA devices (there is no ConnectX-7; tests/unit/test_fabric_seen.py has a
fake_sysfs), and NetworkManager, which DGX OS has as netplan's backend.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sparkwright.fabric import FILE
from tests.e2e.support import sparkwright
from tests.fleet.fabric_site import CLUSTER, Pair, addresses, wanted
from tests.lab.lab import start_lab
from tests.lab.machine import Machine

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with start_lab(machines=2, fabric=2) as lab:
        yield Pair(lab, tmp_path_factory.mktemp("fabric"))


def test_a_pair_gets_its_addresses_and_a_second_run_changes_nothing(pair: Pair) -> None:
    first = pair.converge()
    assert first.rc == 0, first.log
    assert f"spark-1: {FILE}: missing, not a file" in first.changed
    assert "spark-2: fab1: lacks 192.168.101.11/24" in first.changed
    assert "spark-2: fab1: mtu is 1500, not 9000" in first.changed
    assert addresses(pair.one) == wanted(10)
    assert addresses(pair.two) == wanted(11)
    assert pair.one.ssh(f"sudo stat -c '%a %U' {FILE}").stdout.strip() == "600 root"
    second = pair.converge()
    assert (second.rc, second.changed) == (0, []), second.log


@pytest.mark.parametrize("half", [0, 1])
def test_whole_packets_go_both_ways_on_both_halves(pair: Pair, half: int) -> None:
    pair.well()
    for machine, peer in ((pair.one, 11), (pair.two, 10)):
        machine.ssh(f"ping -M do -s 8972 -c 2 -W 2 192.168.{100 + half}.{peer}")
        # Proof that the size counts: one byte more is refused by the machine itself.
        more = machine.ssh(f"ping -M do -s 8973 -c 1 192.168.{100 + half}.{peer}", check=False)
        assert more.returncode != 0


def test_a_reboot_keeps_the_addresses(pair: Pair) -> None:
    pair.well()
    pair.two.power_off()
    pair.two.boot()
    pair.two.ssh("timeout 20 sh -c 'until ip address show fab1 | grep -q inet; do sleep 0.2; done'")
    assert addresses(pair.two) == wanted(11)
    again = pair.converge()
    assert (again.rc, again.changed) == (0, []), again.log


DRIFT = {
    "an address removed": (
        "ip address flush dev fab0", "spark-1: fab0: lacks 192.168.100.10/24"
    ),
    "an MTU changed": ("ip link set fab1 mtu 1500", "spark-1: fab1: mtu is 1500, not 9000"),
    "switched off": ("ip link set fab1 down", "spark-1: fab1: is switched off"),
    "an address too many": (
        "ip address add 10.9.0.1/24 dev fab0",
        "spark-1: fab0: has 10.9.0.1/24, which does not belong there",
    ),
    "the file edited": (
        f"sed -i s/9000/1400/ {FILE}", f"spark-1: {FILE}: content differs"
    ),
    "the file's mode": (f"chmod 644 {FILE}", f"spark-1: {FILE}: mode is 0644, not 0600"),
    "the file removed": (f"rm {FILE}", f"spark-1: {FILE}: missing, not a file"),
}  # fmt: skip


@pytest.mark.parametrize("name", DRIFT)
def test_drift_is_named_and_repaired(pair: Pair, name: str) -> None:
    damage, line = DRIFT[name]
    pair.well()
    pair.one.ssh(f"sudo {damage}")
    found = pair.converge()
    assert found.rc == 0, found.log
    assert line in found.changed
    assert addresses(pair.one) == wanted(10)
    again = pair.converge()
    assert (again.rc, again.changed) == (0, []), again.log


def test_an_mtu_that_is_wrong_on_one_side_is_named(pair: Pair) -> None:
    """Case N04."""
    pair.well()
    pair.two.ssh("sudo ip link set fab1 mtu 1500")
    done = sparkwright(pair.fleet(), "verify", "--json")
    checks = {(row["machine"], row["name"]): row for row in json.loads(done.stdout)["checks"]}
    assert done.returncode == 1, done.stdout
    assert checks["spark-2", "halves"]["seen"] == "fab1: mtu is 1500, not 9000"
    assert checks["spark-1", "halves"]["ok"]
    assert "fab1 has MTU 1500, not 9000" in checks["spark-2", "fabric"]["seen"]
    assert "192.168.101.11 does not answer" in checks["spark-1", "fabric"]["seen"]
    pair.well()
    assert sparkwright(pair.fleet(), "verify").returncode == 0


def refused(pair: Pair, fleet: Path, *lines: str) -> None:
    """A run that ends in preflight with these lines and touches nothing."""
    before = pair.one.ssh(f"sudo stat -c %Z {FILE}; ip address").stdout
    found = pair.converge(fleet)
    assert found.rc != 0
    for line in lines:
        assert line in found.log
    assert "Nothing was changed on spark-1, spark-2." in found.log
    assert before == pair.one.ssh(f"sudo stat -c %Z {FILE}; ip address").stdout


@contextmanager
def own_boot(machine: Machine) -> Iterator[None]:
    """A boot id of its own: all lab machines run on one kernel, which two computers never do."""
    boot = "/proc/sys/kernel/random/boot_id"
    machine.ssh(f"cat /proc/sys/kernel/random/uuid >/tmp/boot; sudo mount --bind /tmp/boot {boot}")
    try:
        yield
    finally:
        machine.ssh(f"sudo umount {boot}")


def test_two_machines_with_one_machine_id_are_refused(pair: Pair) -> None:
    pair.well()
    own = pair.two.ssh("cat /etc/machine-id").stdout.strip()
    same = pair.one.ssh("cat /etc/machine-id").stdout.strip()
    write = "sudo sh -c 'chmod u+w /etc/machine-id; echo {} >/etc/machine-id'"
    pair.two.ssh(write.format(same))
    try:
        with own_boot(pair.two):
            refused(
                pair, pair.fleet(), f"spark-2: has the machine-id of spark-1, {same}: its disk was "
                "copied; on one of them: sudo rm /etc/machine-id; sudo systemd-machine-id-setup; "
                "reboot",
            )  # fmt: skip
        same_boot = f"spark-2: is the same machine as spark-1 (machine-id {same}); keep one of the"
        refused(pair, pair.fleet(), same_boot)
    finally:
        pair.two.ssh(write.format(own))
    pair.well()


def test_a_cluster_with_a_loopback_address_is_refused(pair: Pair) -> None:
    fleet = pair.fleet()
    fleet.write_text(fleet.read_text().replace(pair.two.address, "127.0.0.1"))
    done = sparkwright(fleet, "converge")
    assert done.returncode == 2
    assert (
        "sparks.yaml: clusters/pair/sparks: spark-2 has the address 127.0.0.1, which every machine "
        "has; give it the address by which the others reach it\nNothing was contacted."
    ) in done.stdout + done.stderr


def test_the_interface_of_ssh_is_never_touched(pair: Pair) -> None:
    pair.well()
    fleet = pair.fleet({**CLUSTER, "fabric": {"interfaces": ["fab0", "eth0"]}})
    line = "fabric: eth0 carries this SSH connection, which is never touched; the fabric needs an "
    refused(pair, fleet, f"spark-1: {line}", f"spark-2: {line}")


def test_an_interface_that_another_netplan_file_configures_is_refused(pair: Pair) -> None:
    pair.well()
    other = "/etc/netplan/40-cx7.yaml"
    text = "network: {version: 2, ethernets: {fab1: {dhcp4: true}}}"
    pair.one.ssh(f"sudo sh -c 'umask 077; echo \"{text}\" >{other}'")
    try:
        refused(pair, pair.fleet(), f"spark-1: fabric: fab1 is configured by {other} already")
    finally:
        pair.one.ssh(f"sudo rm {other}")


def test_half_a_cable_that_is_pulled_is_named(pair: Pair) -> None:
    pair.well()
    pair.two.fabric_down(1)
    try:
        refused(pair, pair.fleet(), "spark-2: fabric: fab1 has no carrier; plug its cable in")
    finally:
        pair.two.fabric_up(1)
    pair.well()


def test_a_spark_that_leaves_its_cluster_gives_the_addresses_back(pair: Pair) -> None:
    pair.well()
    gone = pair.converge(pair.fleet(cluster=None))
    assert gone.rc == 0, gone.log
    assert addresses(pair.one) == {"fab0": (9000, []), "fab1": (9000, [])}
    again = pair.converge(pair.fleet(cluster=None))
    assert (again.rc, again.changed) == (0, []), again.log
    pair.well()


def test_a_change_that_cuts_ssh_is_taken_back(pair: Pair) -> None:
    """Somebody's edit of another file waits to be applied; netplan applies all files at once."""
    pair.well()
    wrong = f"{pair.one.address[:-2]}99/24"
    lan = f"network: {{version: 2, ethernets: {{eth0: {{addresses: [{wrong}]}}}}}}"
    pair.one.ssh(f"sudo sh -c 'umask 077; echo \"{lan}\" >/etc/netplan/10-lan.yaml'")
    text = pair.one.ssh(f"sudo cat {FILE}").stdout
    pair.one.ssh("sudo ip address flush dev fab0")
    found = pair.converge(pair.fleet(fabric_confirm_s=8))
    assert found.rc != 0
    assert (
        "spark-1: fabric: nobody could log in anew within 8 s of netplan apply; everything was put "
        "back as it was"
    ) in found.problems, found.log
    assert pair.one.ssh(f"sudo cat {FILE}; ls /run/netplan").stdout == text
    assert addresses(pair.one)["fab0"] == (9000, [])
    # The wrong edit goes; then everything is as before.
    pair.one.ssh("sudo rm /etc/netplan/10-lan.yaml")
    pair.well()
