"""What the rendered units promise, on a real machine: a small server stands in for the engine."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sparkwright import memory
from sparkwright.units import Service, render_unit
from tests.lab import Machine
from tests.unit.service_case import GOLDEN

pytestmark = pytest.mark.lab

ROOT = Path(__file__).parents[2]
LIB = "/opt/sparkwright/lib"
CACHE = "/srv/sparkwright/cache/limits"
EVENTS = f"{CACHE}/events"
ASKED = "/run/fake_ollama.jsonl"
OLLAMA_PORT = 11434
WAIT_S = 60


def put(machine: Machine, path: str, text: str) -> None:
    machine.ssh(f"sudo install -D -m 0644 /dev/stdin {path}", input=text)


@pytest.fixture(scope="module")
def ready(machine: Machine) -> Machine:
    """The gates, the stand-ins, a user and the directories, as tasks leave them."""
    for gate in ("memory_gate.py", "health_gate.py"):
        put(machine, f"{LIB}/{gate}", (ROOT / "files/opt/sparkwright/lib" / gate).read_text())
    for fake in ("fake_engine.py", "fake_ollama.py"):
        put(machine, f"/opt/{fake}", (ROOT / "tests" / fake).read_text())
    machine.ssh(
        "getent passwd llm >/dev/null || sudo useradd --system --no-create-home llm;"
        f"sudo install -d /srv/sparkwright/weights; sudo install -d -o llm {CACHE}"
    )
    return machine


@pytest.fixture
def clean(ready: Machine) -> Machine:
    ready.ssh(f"sudo systemctl stop 'llm-*'; sudo systemctl reset-failed; sudo rm -f {EVENTS}")
    return ready


def service(name: str, port: int, *flags: str) -> Service:
    """A service of ours whose engine is the stand-in."""
    return Service(
        name=f"llm-{name}",
        description=f"stand-in {name}",
        user="llm",
        argv=("/usr/bin/python3", "/opt/fake_engine.py", name, EVENTS, str(port), *flags),
        env={},
        port=port,
        listen="127.0.0.1",
        memory_gib=0.5,
        load_timeout_s=30,
        conflicts=(),
        weights_dir="/srv/sparkwright/weights",
        cache_dir=CACHE,
        api_key_file=None,
        lib_dir=LIB,
        ollama_url=f"http://127.0.0.1:{OLLAMA_PORT}",
        devices=("/dev/nvidiactl", "/dev/nvidia0", "char-nvidia-uvm"),
        digest="0123456789ab",
        restart_sec=1,
    )


def install(machine: Machine, *services: Service) -> None:
    """Write the units; systemd must not print one line about any of them."""
    for wanted in services:
        path = f"/etc/systemd/system/{wanted.name}.service"
        put(machine, path, render_unit(wanted))
    machine.ssh("sudo systemctl daemon-reload")
    for wanted in services:
        checked = machine.ssh(f"systemd-analyze verify {wanted.name}.service 2>&1", check=False)
        assert (checked.returncode, checked.stdout) == (0, "")


def state(machine: Machine, name: str, field: str = "ActiveState") -> str:
    return machine.ssh(f"systemctl show --value --property={field} {name}").stdout.strip()


def journal(machine: Machine, name: str) -> str:
    return machine.ssh(f"sudo journalctl --output=cat --no-pager --unit={name}").stdout


def events(machine: Machine) -> list[str]:
    return machine.ssh(f"cat {EVENTS}", check=False).stdout.splitlines()


def until(what: Callable[[], bool]) -> None:
    """Wait for something that systemd does by itself."""
    end = time.monotonic() + WAIT_S
    while not what():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.3)


def test_golden_unit_verifies_silently(ready: Machine) -> None:
    """The programs it names are put in place, since verify looks for them (exit 1 otherwise)."""
    text = GOLDEN.read_text()
    (binary,) = re.findall(r"^ExecStart=(\S+)", text, re.MULTILINE)
    (user,) = re.findall(r"^User=(\S+)", text, re.MULTILINE)
    assert user == "llm"
    ready.ssh(f"sudo mkdir -p {Path(binary).parent}; sudo ln -sf /usr/bin/true {binary}")
    put(ready, f"/run/{GOLDEN.name}", text)
    done = ready.ssh(f"systemd-analyze verify /run/{GOLDEN.name} 2>&1", check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_verify_would_notice(ready: Machine) -> None:
    """The check above can fail: an unknown key is printed, though the exit status is 0."""
    put(ready, f"/run/bad-{GOLDEN.name}", GOLDEN.read_text().replace("Type=exec", "Tipe=exec"))
    done = ready.ssh(f"systemd-analyze verify /run/bad-{GOLDEN.name} 2>&1", check=False)
    assert "Tipe" in done.stdout


def test_start_returns_when_it_serves(clean: Machine) -> None:
    """Also: devices that a machine lacks do no harm, and the digest is in the environment."""
    install(clean, service("a", 18081, "--load-s", "2"))
    clean.ssh("sudo systemctl start llm-a")
    code = clean.ssh("curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1:18081/health")
    assert code.stdout == "200"
    assert state(clean, "llm-a") == "active"
    text = journal(clean, "llm-a")
    assert "health_gate: /health: 503 after" in text
    assert "health_gate: /health: 200 after" in text
    pid = state(clean, "llm-a", "MainPID")
    environ = clean.ssh(f"sudo cat /proc/{pid}/environ").stdout.split("\0")
    assert "SPARKWRIGHT_DIGEST=0123456789ab" in environ
    assert f"HOME={CACHE}" in environ


def test_crash_loop_stops_after_its_limit(clean: Machine) -> None:
    install(clean, service("crash", 18082, "--crash"))
    clean.ssh("sudo systemctl start llm-crash", check=False)
    until(lambda: "Start request repeated too quickly" in journal(clean, "llm-crash"))
    assert state(clean, "llm-crash") == "failed"
    assert events(clean) == ["crash start"] * 3
    # Nothing is left that would try again, and a start by hand is refused too.
    assert clean.ssh("systemctl list-jobs --no-legend llm-crash.service").stdout.strip() == ""
    assert clean.ssh("sudo systemctl start llm-crash", check=False).returncode != 0
    assert events(clean) == ["crash start"] * 3
    # Clearing the counter is what a converge does before it tries again.
    clean.ssh("sudo systemctl reset-failed llm-crash")
    clean.ssh("sudo systemctl start llm-crash", check=False)
    until(lambda: len(events(clean)) > 3)


def test_units_that_do_not_fit_never_run_together(clean: Machine) -> None:
    """Starting one stops the other first, whichever of them names the conflict."""
    needs = [memory.Need("llm-a", 60, "running"), memory.Need("llm-b", 60, "standby")]
    conflicts = memory.plan(needs, 107).conflicts
    a, b = service("a", 18083), service("b", 18083)
    install(clean, *(replace(s, conflicts=conflicts[s.name]) for s in (a, b)))
    for name, other in (("a", "b"), ("b", "a"), ("a", "b")):
        clean.ssh(f"sudo systemctl start llm-{name}")
        assert state(clean, f"llm-{name}") == "active"
        assert state(clean, f"llm-{other}") == "inactive"
    assert events(clean) == ["a start", "a stop", "b start", "b stop", "a start"]
    for name in ("a", "b"):
        assert "ordering cycle" not in journal(clean, f"llm-{name}")


def test_both_enabled_at_once_ends_with_one(clean: Machine) -> None:
    """One command for both: systemd refuses or drops one job; never two processes."""
    a, b = service("a", 18084), replace(service("b", 18084), conflicts=("llm-a",))
    install(clean, a, b)
    clean.ssh("sudo systemctl start llm-a llm-b", check=False)
    until(lambda: "activating" not in [state(clean, "llm-a"), state(clean, "llm-b")])
    assert [state(clean, "llm-a"), state(clean, "llm-b")].count("active") == 1
    running = 0
    for event in events(clean):
        running += {"start": 1, "stop": -1}[event.split()[1]]
        assert running <= 1


def test_memory_gate_refuses_with_the_number_it_saw(clean: Machine) -> None:
    big = replace(service("big", 18085), memory_gib=100_000, memory_wait_s=1, restart_sec=3600)
    install(clean, big)
    assert clean.ssh("sudo systemctl start llm-big", check=False).returncode != 0
    text = journal(clean, "llm-big")
    seen = re.search(r"refused: 100000\.0 GiB needed, ([0-9.]+) GiB available of ([0-9.]+)", text)
    assert seen is not None
    meminfo = clean.ssh("grep MemTotal /proc/meminfo").stdout.split()[1]
    assert float(seen[2]) == pytest.approx(int(meminfo) / 2**20, abs=0.1)
    assert 0 < float(seen[1]) <= float(seen[2])
    assert re.search(r"holder: [0-9.]+ GiB \S+ \(pid \d+\)", text)
    assert "page cache: " in text
    assert events(clean) == []


def test_ollama_is_asked_to_unload(clean: Machine) -> None:
    clean.ssh(
        "sudo systemd-run --quiet --collect --unit=fake-ollama "
        f"python3 /opt/fake_ollama.py {OLLAMA_PORT} {ASKED} llama3:70b qwen:7b"
    )
    until(
        lambda: clean.ssh(
            f"curl -s http://127.0.0.1:{OLLAMA_PORT}/api/ps", check=False
        ).returncode == 0
    )  # fmt: skip
    install(clean, service("a", 18086))
    clean.ssh("sudo systemctl start llm-a")
    asked = [json.loads(line) for line in clean.ssh(f"cat {ASKED}").stdout.splitlines()]
    clean.ssh("sudo systemctl stop fake-ollama")
    assert [(request["model"], request["keep_alive"]) for request in asked] == [
        ("llama3:70b", 0),
        ("qwen:7b", 0),
    ]
    assert "ollama: asked to unload llama3:70b" in journal(clean, "llm-a")
    assert state(clean, "llm-a") == "active"
