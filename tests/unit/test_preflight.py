"""Preflight: what a machine answers, and the exact lines that a user reads."""

from __future__ import annotations

import dataclasses
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sparkwright import preflight_seen, vllm_needs
from sparkwright.library import probe as library_probe
from sparkwright.preflight import BUILD_GIB, check
from sparkwright.preflight_seen import Seen, probes, seen
from sparkwright.unit_sections import MARKER
from tests.unit.machine_case import DIRECTORY, GIB, HOST, ITEM, WEIGHTS, data, item, merged

SPARK = Seen(
    host=HOST,
    disks={
        "data_dir": {"free": 200 * GIB, "readonly": False, "noexec": False},
        "prefix": {"free": 200 * GIB, "readonly": False, "noexec": False},
    },
    ports={"ports": {"22": ["sshd (pid 1, ssh.service)"]}},
    gpu={"rc": 0, "out": "NVIDIA GB10, 12.1, 580.95.05\n", "err": ""},
    units={"rc": 0, "out": ""},
    held={"rc": 0, "out": ""},
    ours={"rc": 1, "out": ""},
    offset_s=0.3,
)
BIG = item("big", recipe={"memory_gib": 200})
SECOND = item("two", port=8081, recipe={"memory_gib": 100})


def host(**changes: Any) -> dict[str, Any]:
    return {"host": merged(HOST, **changes)}


def disk(key: str, **changes: Any) -> dict[str, Any]:
    return {"disks": {**SPARK.disks, key: merged(SPARK.disks[key], **changes)}}


def gpu(out: str, rc: int = 0, err: str = "") -> dict[str, Any]:
    return {"gpu": {"rc": rc, "out": out, "err": err}}


def port(number: int, *holders: str) -> dict[str, Any]:
    return {"ports": {"ports": {str(number): list(holders)}}}


def library(rc: int, out: str = "", err: str = "") -> dict[str, Any]:
    return {"library": {"rc": rc, "out": out, "err": err}}


NAS = {"artifacts_library": "/mnt/models"}
MOUNT = "mount it (systemd.mount(5), fstab: try `findmnt /mnt/models`), or remove artifacts/library"
MEND = "mend the driver (sparkwright never changes it), then run again"
DASHBOARD = "use the DGX dashboard's update; sparkwright never changes it"
FOREIGN = "is not ours and has the name of a unit that we would write; rename it, or the recipe"
# name: (what differs from a good Spark, settings, recipes, the lines)
ROWS: dict[str, tuple[dict[str, Any], dict[str, Any], list[Any], list[str]]] = {
    "a good Spark": ({}, {}, [ITEM], []),
    "nothing to serve": ({}, {}, [], []),
    "a library": (library(0, "hub"), NAS, [ITEM], []),
    "a library whose mount is missing": (
        library(0), NAS, [ITEM],
        [f"library /mnt/models: is an empty directory: nothing is mounted there; {MOUNT}"],
    ),
    "a library that is nowhere": (
        library(2, err="sh: 1: cd: can't cd to /mnt/models: No such file"), NAS, [ITEM],
        [f"library /mnt/models: cannot be opened (No such file); {MOUNT}"],
    ),
    "a library whose server is gone": (
        library(124), NAS, [ITEM],
        ["library /mnt/models: does not answer within 20 s; is its server on?"],
    ),
    "architecture": (
        host(arch="x86_64"), {}, [],
        ["arch: is x86_64, not aarch64; set `arch` for a machine that is not a Spark"],
    ),
    "architecture said openly": (host(arch="x86_64"), {"arch": "x86_64"}, [], []),
    "system": (
        host(os="debian 12"), {}, [],
        ["os: is debian 12, not one of ubuntu 24.04; set `os_releases` if this is meant"],
    ),
    "one of two systems": (
        host(os="debian 12"), {"os_releases": ["ubuntu 24.04", "debian 12"]}, [], [],
    ),
    "old python": (
        host(python=[3, 9]), {}, [],
        ["python3: is 3.9, 3.11 or newer is needed; upgrade the system's python3"],
    ),
    "not root": (
        host(euid=1000), {}, [],
        ["sudo: commands do not run as root; check `_sudo` and the sudo rule"],
    ),
    "no systemd": (
        host(tools={"sudo": "/bin/sudo", "systemctl": None, "ss": None}), {}, [],
        ["tools: systemctl, ss not found; is this a systemd machine?"],
    ),
    "clock behind": (
        {"offset_s": -3600.4}, {}, [],
        ["clock: 3600 s behind the laptop, at most 60 s is accepted; set it: sudo timedatectl "
         "set-time, or start an NTP client"],
    ),
    "clock ahead": (
        {"offset_s": 61.0}, {}, [],
        ["clock: 61 s ahead of the laptop, at most 60 s is accepted; set it: sudo timedatectl "
         "set-time, or start an NTP client"],
    ),
    "clock at the limit": ({"offset_s": -60.0}, {}, [], []),
    "clock limit said openly": ({"offset_s": 90.0}, {"clock_offset_max_s": 100}, [], []),
    "no nvidia-smi": (
        gpu("", 127, "[Errno 2] No such file or directory: 'nvidia-smi'"), {}, [],
        [f"gpu: nvidia-smi does not show one: [Errno 2] No such file or directory: 'nvidia-smi'; "
         f"{MEND}"],
    ),
    "driver not loaded": (
        gpu("NVIDIA-SMI has failed because it couldn't communicate with the driver.\n", 9), {}, [],
        ["gpu: nvidia-smi does not show one: NVIDIA-SMI has failed because it couldn't "
         f"communicate with the driver.; {MEND}"],
    ),
    "no devices": (
        gpu("No devices were found\n", 6), {}, [],
        [f"gpu: nvidia-smi does not show one: No devices were found; {MEND}"],
    ),
    "all not available": (
        gpu("[N/A], [N/A], [N/A]\n"), {}, [],
        [f"gpu: nvidia-smi does not show one: [N/A], [N/A], [N/A]; {MEND}"],
    ),
    "not supported": (
        gpu("NVIDIA GB10, [Not Supported], 580.95.05\n"), {}, [],
        ["gpu: nvidia-smi does not show one: NVIDIA GB10, [Not Supported], 580.95.05; " + MEND],
    ),
    "driver version not available": (
        gpu("NVIDIA GB10, 12.1, [N/A]\n"), {}, [],
        [f"gpu: driver is [N/A], CUDA 13 needs 580 or newer; {DASHBOARD}"],
    ),
    "one good row among others": (
        gpu("[N/A], [N/A], [N/A]\nNVIDIA GB10, 12.1, 580.1\n"), {}, [], [],
    ),
    "another GPU with an old driver": (
        gpu("NVIDIA RTX 6000, 8.9, 570.124.06\n"), {}, [],
        ["gpu: NVIDIA RTX 6000 has compute capability 8.9, not 12.1; is this a GB10?",
         f"gpu: driver is 570.124.06, CUDA 13 needs 580 or newer; {DASHBOARD}"],
    ),
    "no GPU, said openly": (gpu("", 127), {"gpu_required": False}, [], []),
    "a GPU that did not answer": (
        {"gpu": {"error": "TimeoutExpired"}}, {}, [],
        [f"gpu: nvidia-smi does not show one: ; {MEND}"],
    ),
    "a model too big": (
        {}, {}, [BIG],
        ["memory/llm-big: needs 200 GiB, the machine has 108 GiB for units; lower its context or "
         "memory_gib, or choose a smaller model"],
    ),
    "two that do not fit": (
        {}, {}, [ITEM, SECOND],
        ["memory: running units need 110 GiB together (llm-tiny 10 + llm-two 100), the machine "
         "has 108 GiB for them; set state: standby for some, or serve them from another spark"],
    ),
    "two too big": (
        host(mem_total=16 * GIB), {}, [ITEM, SECOND],
        ["memory/llm-tiny: needs 10 GiB, the machine has 4 GiB for units; lower its context or "
         "memory_gib, or choose a smaller model",
         "memory/llm-two: needs 100 GiB, the machine has 4 GiB for units; lower its context or "
         "memory_gib, or choose a smaller model",
         "memory: running units need 110 GiB together (llm-tiny 10 + llm-two 100), the machine "
         "has 4 GiB for them; set state: standby for some, or serve them from another spark"],
    ),
    "one of two on standby": (
        {}, {}, [ITEM, dataclasses.replace(SECOND, state="standby")], [],
    ),
    "disk full": (
        disk("data_dir", free=5 * GIB), {}, [],
        ["/srv/sparkwright: 5.0 GiB free, 10.0 GiB are needed (0.0 GiB of weights are missing); "
         "free space, or move data_dir"],
    ),
    "no space to build": (
        disk("prefix", free=GIB), {"prefix": "/opt/sw"}, [],
        [f"/opt/sw: 1.0 GiB free, {BUILD_GIB}.0 GiB are needed; free space, or move prefix"],
    ),
    "read-only disk": (
        disk("prefix", readonly=True, free=0), {}, [],
        ["/opt/sparkwright: is on a read-only file system; mount it read-write"],
    ),
    "a disk that did not answer": (
        {"disks": {**SPARK.disks, "prefix": {"error": "OSError"}}}, {}, [],
        ["/opt/sparkwright: 0.0 GiB free, 2.0 GiB are needed; free space, or move prefix"],
    ),
    "port taken": (
        port(8080, "ollama (pid 7, ollama.service)"), {}, [ITEM],
        ["port 8080: is held by ollama (pid 7, ollama.service), llm-tiny wants it; stop that "
         "program, or set another port"],
    ),
    "port held by the unit itself": (
        port(8080, "llama-server (pid 7, llm-tiny.service)"), {}, [ITEM], [],
    ),
    "port held by a name that only ends alike": (
        port(8080, "x (pid 7, llm-llm-tiny.service)"), {}, [ITEM],
        ["port 8080: is held by x (pid 7, llm-llm-tiny.service), llm-tiny wants it; stop that "
         "program, or set another port"],
    ),
    # A recipe that replaces another on the same port: the old unit is removed first.
    "port held by a retired unit of ours": (
        {**port(8080, "llama-server (pid 7, llm-old.service)"),
         "ours": {"rc": 0, "out": "/etc/systemd/system/llm-old.service\n"}},
        {}, [ITEM], [],
    ),
    "port held by a listed unit of ours": (
        {**port(8080, "llama-server (pid 7, llm-two.service)"),
         "ours": {"rc": 0, "out": "/etc/systemd/system/llm-two.service\n"}},
        {}, [ITEM, dataclasses.replace(SECOND, state="standby")],
        ["port 8080: is held by llama-server (pid 7, llm-two.service), llm-tiny wants it; stop "
         "that program, or set another port"],
    ),
    "port of a standby recipe taken": (
        port(8080, "x (pid 7, ?)"), {}, [dataclasses.replace(ITEM, state="standby")], [],
    ),
    "port taken twice": (
        port(8080, "a (pid 7, x.scope)", "b (pid ?, ?)"), {}, [ITEM],
        [f"port 8080: is held by {who}, llm-tiny wants it; stop that program, or set another port"
         for who in ("a (pid 7, x.scope)", "b (pid ?, ?)")],
    ),
    "a foreign unit of our name": (
        {"units": {"rc": 0, "out": "/etc/systemd/system/llm-tiny.service\n"}}, {}, [ITEM],
        [f"/etc/systemd/system/llm-tiny.service: {FOREIGN}"],
    ),
    "everything at once": (
        {**host(arch="x", euid=5), **gpu("", 1), "offset_s": 100.0}, {}, [],
        ["arch: is x, not aarch64; set `arch` for a machine that is not a Spark",
         "sudo: commands do not run as root; check `_sudo` and the sudo rule",
         "clock: 100 s ahead of the laptop, at most 60 s is accepted; set it: sudo timedatectl "
         "set-time, or start an NTP client",
         f"gpu: nvidia-smi does not show one: ; {MEND}"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_the_exact_lines(name: str) -> None:
    answers, settings, items, lines = ROWS[name]
    found = check(data(**settings), items, dataclasses.replace(SPARK, **answers))
    assert [str(problem) for problem in found] == lines


MIB = 2**20
WANTED = 10 * GIB


@pytest.mark.parametrize(
    ("held", "missing"),
    [
        ("", 64 * GIB),
        (f"{DIRECTORY}/tiny.gguf\t{64 * GIB}\n", 0),
        (f"{DIRECTORY}/tiny.gguf\t{64 * GIB - 1}\n", 64 * GIB),  # cut: fetched again
        (f"{DIRECTORY}/other.gguf\t{64 * GIB}\n", 64 * GIB),
        (f"{DIRECTORY}/a\tb\n{DIRECTORY}/odd\nname\t3\n\n", 64 * GIB),
    ],
)
def test_only_missing_weights_need_space(held: str, missing: int) -> None:
    big = dataclasses.replace(WEIGHTS.files[0], size=64 * GIB)
    items = [dataclasses.replace(ITEM, weights=dataclasses.replace(WEIGHTS, files=(big,)))]
    for free, fine in ((missing + WANTED, True), (missing + WANTED - MIB, False)):
        answers = {**disk("data_dir", free=free), "held": {"out": held}}
        found = [str(p) for p in check(data(), items, dataclasses.replace(SPARK, **answers))]
        assert found == ([] if fine else [
            f"/srv/sparkwright: {(free) / GIB:.1f} GiB free, {(missing + WANTED) / GIB:.1f} GiB "
            f"are needed ({missing / GIB:.1f} GiB of weights are missing); free space, or move "
            "data_dir"
        ])  # fmt: skip


def test_a_file_that_two_recipes_share_is_counted_once() -> None:
    big = dataclasses.replace(WEIGHTS.files[0], size=64 * GIB)
    weights = dataclasses.replace(WEIGHTS, files=(big,))
    items = [dataclasses.replace(ITEM, weights=weights), item("two", port=1, weights=weights)]
    answers = disk("data_dir", free=64 * GIB + WANTED)
    assert list(check(data(), items, dataclasses.replace(SPARK, **answers))) == []


# --- questions and answers ---------------------------------------------------------------------


def test_answers_are_taken_in_the_order_of_the_questions() -> None:
    specs = probes(data(), [ITEM])
    marks: list[dict[str, Any]] = [{"mark": place} for place in range(len(specs))]
    marks[0]["clock"] = 1000.0
    found = seen(marks, 990.0)
    assert found.offset_s == 10
    kinds = {
        "host": found.host, "gpu": found.gpu, "units": found.units, "held": found.held,
        "ours": found.ours, **found.disks,
    }  # fmt: skip
    assert specs[found.ports["mark"]] == {"kind": "ports"}
    asked = {name: specs[state["mark"]] for name, state in kinds.items()}
    assert asked["data_dir"] == {"kind": "disk", "path": "/srv/sparkwright"}
    assert asked["prefix"] == {"kind": "disk", "path": "/opt/sparkwright"}
    assert asked["gpu"]["argv"][0] == "nvidia-smi"
    assert asked["held"]["argv"][2:4] == ["find", DIRECTORY]
    assert specs[found.library["mark"]] == library_probe(data())
    assert asked["ours"]["argv"][0] == "grep"
    assert asked["units"]["argv"][0] == "sh"


@pytest.fixture
def units(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with hostile name that stands for /etc/systemd/system."""
    place = tmp_path / "unit dir'$x"
    place.mkdir()
    monkeypatch.setattr(preflight_seen, "UNIT_DIR", str(place))
    return place


def answer(place: int, items: list[Any]) -> str:
    argv = probes(data(), items)[place]["argv"]
    return subprocess.run(argv, capture_output=True, text=True, check=False).stdout


@pytest.mark.parametrize(
    ("text", "foreign"),
    [
        (f"{MARKER}. A converge undoes edits.\n[Unit]\n", False),
        ("[Unit]\nDescription=by hand\n", True),
        (f"[Unit]\nDescription={MARKER}\n", True),  # only at the beginning of a line
        ("", True),
        (None, False),
    ],
)
def test_a_unit_without_our_marker_is_foreign(units: Path, text: str | None, foreign: bool) -> None:
    if text is not None:
        (units / "llm-tiny.service").write_text(text)
    found = answer(5, [ITEM, item("other")])
    assert found == (f"{units}/llm-tiny.service\n" if foreign else "")


@pytest.mark.parametrize(("target", "served", "foreign"), [
    ("/dev/null", False, True), ("/dev/null", True, False), ("/nonexistent", True, True),
])  # fmt: skip
def test_a_mask_is_foreign_unless_the_unit_has_served(
    units: Path, monkeypatch: pytest.MonkeyPatch, target: str, served: bool, foreign: bool
) -> None:
    """A mask put on a unit of ours is drift; one on a name that we never used is a decision."""
    monkeypatch.setattr(preflight_seen, "ACCEPTED", str(units))
    (units / "llm-tiny.service").symlink_to(target)
    if served:
        (units / "llm-tiny.json").touch()
    assert answer(5, [ITEM]) == (f"{units}/llm-tiny.service\n" if foreign else "")


def test_without_recipes_nothing_is_foreign(units: Path) -> None:
    (units / "llm-tiny.service").write_text("by hand")
    assert answer(5, []) == ""


def test_ours_are_files_with_marker_whatever_recipe(tmp_path: Path) -> None:
    (tmp_path / "llm-old.service").write_text(f"{MARKER}. x\n")
    (tmp_path / "llm-foreign.service").write_text("[Unit]\n")
    (tmp_path / "other.service").write_text(f"{MARKER}. x\n")
    (tmp_path / "multi-user.target.wants").mkdir()
    (tmp_path / "multi-user.target.wants/llm-old.service").symlink_to(tmp_path / "llm-old.service")
    argv = [*preflight_seen.OURS[:-1], str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.stdout == f"{tmp_path}/llm-old.service\n"


def test_held_files_are_listed_with_their_size(tmp_path: Path) -> None:
    weights = dataclasses.replace(WEIGHTS, directory=str(tmp_path))
    (tmp_path / "tiny.gguf").write_bytes(b"x" * 7)
    assert answer(6, [dataclasses.replace(ITEM, weights=weights)]) == f"{tmp_path}/tiny.gguf\t7\n"
    assert answer(6, []) == ""


@pytest.mark.parametrize(("there", "fine"), [(frozenset(), False), (frozenset({"eugr-ab"}), True)])
def test_a_new_venv_needs_room(
    monkeypatch: pytest.MonkeyPatch, there: frozenset[str], fine: bool
) -> None:
    made = SimpleNamespace(name="eugr-ab")
    monkeypatch.setattr(vllm_needs, "environments", lambda data: [made])
    disks = {**SPARK.disks, "prefix": {"free": 9 * GIB, "readonly": False}}
    found = check(data(), [ITEM], dataclasses.replace(SPARK, disks=disks, venvs=there))
    text = "/opt/sparkwright: 9.0 GiB free, 14.0 GiB are needed (eugr-ab to be made); "
    assert [str(problem) for problem in found] == (
        [] if fine else [f"{text}free space, or move prefix"]
    )
