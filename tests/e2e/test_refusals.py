"""Machines that are not fit: every row through the real CLI, with the exact lines that it prints.

Each row also proves that nothing was changed on the machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.e2e import refusing
from tests.e2e.refusing import LLAMA, Bench, Fault, broken, preflight, serving, unchanged
from tests.lab.lab import start_lab

pytestmark = pytest.mark.lab

GIB = 2**30
UNIT = f"/etc/systemd/system/llm-{LLAMA}.service"
SMI = "/usr/local/bin/nvidia-smi"
DATA = "/srv/sparkwright"
WRONG_ARCH = Fault(settings={"arch": "riscv64"})
MEND = "mend the driver (sparkwright never changes it), then run again"


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with start_lab(machines=2) as lab:
        yield Bench(lab, tmp_path_factory.mktemp("refusals"))


def arch(bench: Bench) -> str:
    real = bench.one.ssh("uname -m").stdout.strip()
    return f"arch: is {real}, not riscv64; set `arch` for a machine that is not a Spark"


def smi(answer: str) -> tuple[str, str]:
    """Commands that put a fake nvidia-smi on a machine, and take it away."""
    text = f"#!/bin/sh\n# A fake of sparkwright's tests, not NVIDIA's program.\necho '{answer}'\n"
    return f"cat >{SMI} <<'END'\n{text}END\nchmod 755 {SMI}", f"rm {SMI}"


# name: (settings, damage, mend, lines after "spark-1: ")
ROWS: dict[str, tuple[dict[str, object], str, str, list[str]]] = {
    "system": (
        {"os_releases": None}, "", "",
        ["os: is debian 12, not one of ubuntu 24.04; set `os_releases` if this is meant"],
    ),
    "no nvidia-smi": (
        {"gpu_required": True}, "", "",
        ["gpu: nvidia-smi does not show one: [Errno 2] No such file or directory: 'nvidia-smi'; "
         + MEND],
    ),
    "another GPU with an old driver": (
        {"gpu_required": True}, *smi("Fake RTX 6000, 8.9, 570.124.06"),
        ["gpu: Fake RTX 6000 has compute capability 8.9, not 12.1; is this a GB10?",
         "gpu: driver is 570.124.06, CUDA 13 needs 580 or newer; use the DGX dashboard's update; "
         "sparkwright never changes it"],
    ),
    "a GPU that says nothing": (
        {"gpu_required": True}, *smi("[N/A], [N/A], [N/A]"),
        [f"gpu: nvidia-smi does not show one: [N/A], [N/A], [N/A]; {MEND}"],
    ),
    "a data file system that is too small": (
        {}, f"mkdir {DATA} && mount -t tmpfs -o size=8m tmpfs {DATA}",
        f"umount {DATA} && rmdir {DATA}",
        [f"{DATA}: 0.0 GiB free, 1.0 GiB are needed (0.0 GiB of weights are missing); free space, "
         "or move data_dir"],
    ),
    "a software file system that is too small": (
        {}, "mkdir /opt/sparkwright && mount -t tmpfs -o size=1g tmpfs /opt/sparkwright",
        "umount /opt/sparkwright && rmdir /opt/sparkwright",
        ["/opt/sparkwright: 1.0 GiB free, 2.0 GiB are needed; free space, or move prefix"],
    ),
    "a read-only data file system": (
        {}, f"mkdir {DATA} && mount -t tmpfs -o ro tmpfs {DATA}", f"umount {DATA} && rmdir {DATA}",
        [f"{DATA}: is on a read-only file system; mount it read-write"],
    ),
    "no python3": (
        {}, "mv /usr/bin/python3 /root/python3", "mv /root/python3 /usr/bin/python3",
        ["python3: not found; install it: sudo apt-get install python3"],
    ),
    "a foreign unit": (
        {}, f"printf '[Service]\\nExecStart=/bin/true\\n' >{UNIT}", f"rm {UNIT}",
        [f"{UNIT}: is not ours and has the name of a unit that we would write; rename it, or the "
         "recipe"],
    ),
    "a unit masked by hand": (
        {}, f"systemctl --quiet mask llm-{LLAMA}.service", f"rm {UNIT}; systemctl daemon-reload",
        [f"{UNIT}: is not ours and has the name of a unit that we would write; rename it, or the "
         "recipe"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_a_machine_that_is_not_fit_is_named_and_left_alone(bench: Bench, name: str) -> None:
    settings, damage, mend, lines = ROWS[name]
    fleet = bench.fleet(Fault(settings=settings))
    with broken(bench.one, damage, mend), unchanged(bench.one):
        preflight(fleet, [f"spark-1: {line}" for line in lines])


def test_a_wrong_architecture(bench: Bench) -> None:
    with unchanged(bench.one):
        preflight(bench.fleet(WRONG_ARCH), [f"spark-1: {arch(bench)}"])


@pytest.mark.parametrize(
    ("shift", "seconds", "way"), [("-2h", 7200, "ahead of"), ("+90s", 90, "behind")]
)
def test_a_clock_that_differs(bench: Bench, shift: str, seconds: int, way: str) -> None:
    with unchanged(bench.one):
        done = refusing.run(bench.fleet(), below=["faketime", "-f", shift])
    found = re.search(r"^spark-1: clock: (\d+) s (.*)$", done.stdout, re.M)
    assert found, done.stdout + done.stderr
    assert abs(int(found[1]) - seconds) <= 2
    assert found[2] == (
        f"{way} the laptop, at most 60 s is accepted; set it: sudo timedatectl set-time, or start "
        "an NTP client"
    )


def test_budgets_above_the_machine(bench: Bench) -> None:
    total = int(bench.one.ssh("sed -n 's/^MemTotal: *//p' /proc/meminfo").stdout.split()[0]) * 1024
    room = f"{total / GIB - 4:g}"
    half = round((total / GIB - 4) * 0.6)
    recipes = {"big": {"memory_gib": 5000}, "a": {"memory_gib": half}, "b": {"memory_gib": half}}
    ports = [{"recipe": name, "port": 9000 + n} for n, name in enumerate(recipes)]
    with unchanged(bench.one):
        preflight(
            bench.fleet(Fault(recipes=recipes), serving(*ports[:1])),
            [f"spark-1: memory/llm-big: needs 5000 GiB, the machine has {room} GiB for units; "
             "lower its context or memory_gib, or choose a smaller model"],
        )  # fmt: skip
        preflight(
            bench.fleet(Fault(recipes=recipes), serving(*ports[1:])),
            [f"spark-1: memory: running units need {2 * half} GiB together (llm-a {half} + llm-b "
             f"{half}), the machine has {room} GiB for them; set state: standby for some, or serve "
             "them from another spark"],
        )  # fmt: skip


def test_a_disk_margin_that_no_disk_has(bench: Bench) -> None:
    with unchanged(bench.one):
        done = refusing.run(bench.fleet(Fault(settings={"min_free_gib": 900000})))
    assert re.match(
        rf"spark-1: {DATA}: \d+\.\d GiB free, 900000\.0 GiB are needed \(0\.0 GiB of weights are "
        r"missing\); free space, or move data_dir\n",
        done.stdout,
    ), done.stdout


def test_a_port_that_somebody_else_holds(bench: Bench) -> None:
    program = "systemd-run --quiet --unit=stranger python3 -m http.server 8081 --bind 127.0.0.1"
    wait = "for n in $(seq 50); do ss -Hltn | grep -q :8081 && exit; sleep 0.1; done; exit 1"
    with broken(bench.one, f"{program}\n{wait}", "systemctl stop stranger"), unchanged(bench.one):
        pid = bench.one.ssh("systemctl show -p MainPID --value stranger").stdout.strip()
        preflight(
            bench.fleet(),
            [f"spark-1: port 8081: is held by python3 (pid {pid}, stranger.service), llm-{LLAMA} "
             "wants it; stop that program, or set another port"],
        )  # fmt: skip


def test_problems_of_two_machines_are_one_report(bench: Bench) -> None:
    two = bench.lab.machines[1]
    real = two.ssh("uname -m").stdout.strip()
    entry = {"address": two.address, "settings": {"os_releases": ["ubuntu 24.04"], "arch": real}}
    add = Fault(fleet=lambda fleet: fleet["sparks"].update({"spark-2": entry}))
    fleet = bench.fleet(WRONG_ARCH, add)
    lines = [
        f"spark-1: {arch(bench)}",
        "spark-2: os: is debian 12, not one of ubuntu 24.04; set `os_releases` if this is meant",
    ]
    with unchanged(bench.one, two):
        preflight(fleet, lines)
        assert "Nothing was changed on spark-1, spark-2." in refusing.run(fleet).stderr


def test_one_machine_that_is_not_fit_stops_the_others_too(bench: Bench) -> None:
    """Half a fleet converged is what preflight exists to prevent."""
    two = bench.lab.machines[1]
    entry = {"address": two.address, "serve": [], "settings": {}}
    fleet = bench.fleet(
        Fault(fleet=lambda fleet: fleet["sparks"]["spark-1"].update(settings={"arch": "riscv64"})),
        Fault(fleet=lambda fleet: fleet["sparks"].update({"spark-2": entry})),
    )
    with unchanged(bench.one, two):
        preflight(fleet, [f"spark-1: {arch(bench)}"])
