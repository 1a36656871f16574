"""The gates before and after a start, run as systemd runs them: a process of their own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fake_ollama import FakeOllama

ROOT = Path(__file__).parents[2]
LIB = ROOT / "files/opt/sparkwright/lib"
ENGINE = ROOT / "tests/fake_engine.py"


def write_meminfo(path: Path, available_kib: int) -> None:
    """As the kernel writes it; MemFree is small on purpose, and a line has no unit."""
    path.write_text(
        f"MemTotal:       134217728 kB\nMemFree:        1048576 kB\nMemAvailable: "
        f"{available_kib} kB\nShmem:          3145728 kB\nHugePages_Total:       0\n"
    )


@pytest.fixture
def meminfo(tmp_path: Path) -> Path:
    """A machine of 128 GiB with 100 GiB available."""
    write_meminfo(tmp_path / "meminfo", 100 * 2**20)
    return tmp_path / "meminfo"


def memory_gate(meminfo: Path, need: float, *more: str) -> subprocess.CompletedProcess[str]:
    drop = meminfo.with_name("drop_caches")
    command = [sys.executable, "-I", str(LIB / "memory_gate.py"), "--need-gib", str(need)]
    command += ["--meminfo", str(meminfo), "--drop-caches", str(drop), "--poll-s", "0.05", *more]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def test_passes_when_the_memory_is_available(meminfo: Path) -> None:
    """MemAvailable decides, not the 1 GiB of MemFree."""
    done = memory_gate(meminfo, 100)
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "memory_gate: page cache: dropped",
        "memory_gate: memory: 100.0 GiB available, 100.0 GiB needed (0 s)",
    ]
    assert meminfo.with_name("drop_caches").read_text() == "3\n"


def test_refuses_with_the_numbers_it_saw_and_who_holds_the_memory(meminfo: Path) -> None:
    done = memory_gate(meminfo, 100.1, "--wait-s", "0.2")
    assert done.returncode == 1
    lines = [line.removeprefix("memory_gate: ") for line in done.stdout.splitlines()]
    assert lines[1] == "memory: 100.0 GiB available, 100.1 GiB needed; waiting"
    assert lines[2] == "refused: 100.1 GiB needed, 100.0 GiB available of 128.0 GiB after 0.2 s"
    assert [line for line in lines[3:] if line.startswith("holder: ") and "(pid " in line]
    assert "holder: 3.0 GiB shared memory and tmpfs" in lines
    assert lines[-1].startswith("what to do: stop a holder above, or lower memory_gib")


def test_the_biggest_holder_comes_first(meminfo: Path, tmp_path: Path) -> None:
    proc = tmp_path / "proc"
    for pid, pages, name in ((10, 2**18, "small"), (11, 2**20, "big one"), (12, 2**19, "middle")):
        (proc / str(pid)).mkdir(parents=True)
        (proc / str(pid) / "statm").write_text(f"9 {pages} 1 1 0 1 0\n")
        (proc / str(pid) / "comm").write_text(f"{name}\n")
    (proc / "13").mkdir()  # it ended while the gate looked
    done = memory_gate(meminfo, 101, "--wait-s", "0", "--proc", str(proc))
    gib = os.sysconf("SC_PAGE_SIZE") / 2**30
    holders = [line for line in done.stdout.splitlines() if "(pid" in line]
    assert holders == [
        f"memory_gate: holder: {2**20 * gib:.1f} GiB big one (pid 11)",
        f"memory_gate: holder: {2**19 * gib:.1f} GiB middle (pid 12)",
        f"memory_gate: holder: {2**18 * gib:.1f} GiB small (pid 10)",
    ]


def test_waits_until_the_memory_comes_back(meminfo: Path) -> None:
    """After a kill it comes back late (MiaAI-Lab/GLM-5.3-Flash-EXL3-2x-DGX-Sparks#193)."""

    def come_back() -> None:
        write_meminfo(meminfo.with_name("next"), 120 * 2**20)
        meminfo.with_name("next").rename(meminfo)

    timer = threading.Timer(1.0, come_back)
    timer.start()
    done = memory_gate(meminfo, 110, "--wait-s", "60")
    timer.join()
    assert done.returncode == 0
    assert "100.0 GiB available, 110.0 GiB needed; waiting" in done.stdout
    assert "120.0 GiB available, 110.0 GiB needed" in done.stdout


def test_a_kernel_that_keeps_its_cache_is_no_failure(meminfo: Path) -> None:
    meminfo.with_name("drop_caches").mkdir()
    done = memory_gate(meminfo, 1)
    assert done.returncode == 0
    assert "page cache: not dropped (Is a directory: " in done.stdout


def test_ollama_is_asked_to_unload_every_model(meminfo: Path) -> None:
    with FakeOllama(["llama3:70b", "qwen:7b"]) as ollama:
        done = memory_gate(meminfo, 1, "--ollama-url", ollama.url)
    assert done.returncode == 0
    assert ollama.asked == [
        {"path": "/api/generate", "model": "llama3:70b", "keep_alive": 0},
        {"path": "/api/generate", "model": "qwen:7b", "keep_alive": 0},
    ]
    assert ollama.loaded == []
    assert done.stdout.splitlines()[:3] == [
        "memory_gate: ollama: 2 model(s) loaded",
        "memory_gate: ollama: asked to unload llama3:70b (13.0 GiB)",
        "memory_gate: ollama: asked to unload qwen:7b (13.0 GiB)",
    ]


def test_no_ollama_is_fine(meminfo: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    done = memory_gate(meminfo, 1, "--ollama-url", f"http://127.0.0.1:{port}")
    assert done.returncode == 0
    assert f"ollama: nothing listens at http://127.0.0.1:{port}\n" in done.stdout


def test_an_ollama_that_does_not_answer_is_left_after_a_while(meminfo: Path) -> None:
    with FakeOllama(["m"], delay_s=60) as ollama:
        done = memory_gate(meminfo, 1, "--ollama-url", ollama.url)
    assert done.returncode == 0
    assert "no usable answer from" in done.stdout
    assert "(timed out); going on" in done.stdout


@pytest.mark.parametrize("url", ["127.0.0.1:1", "http://127.0.0.1:99999", "http://[", "nonsense"])
def test_a_bad_ollama_address_is_said(meminfo: Path, url: str) -> None:
    done = memory_gate(meminfo, 1, "--ollama-url", url)
    assert (done.returncode, done.stderr) == (0, "")
    assert "ollama: " in done.stdout


@pytest.fixture
def port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@pytest.fixture
def engine(tmp_path: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """A stand-in engine that answers 503 for a while, then 200."""
    command = [sys.executable, str(ENGINE), "e", str(tmp_path / "events"), str(port)]
    with subprocess.Popen([*command, "--load-s", "1"]) as process:
        yield process
        process.kill()


def health_gate(port: int, pid: int, timeout_s: float = 30) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", str(LIB / "health_gate.py"), "--host", "127.0.0.1"]
    command += ["--port", str(port), "--timeout-s", str(timeout_s)]
    env = {**os.environ, "MAINPID": str(pid), "http_proxy": "http://127.0.0.1:1"}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=env, timeout=60)


def test_ready_after_loading(engine: subprocess.Popen[bytes], port: int) -> None:
    done = health_gate(port, engine.pid)
    assert done.returncode == 0
    assert "/health: 503 after" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("health_gate: /health: 200 after")


def test_not_ready_in_time(engine: subprocess.Popen[bytes], port: int) -> None:
    engine.send_signal(signal.SIGSTOP)
    done = health_gate(port, engine.pid, timeout_s=1.5)
    engine.send_signal(signal.SIGCONT)
    assert done.returncode == 1
    assert "not ready after 1.5 s" in done.stdout


def test_an_engine_that_ends_is_noticed(port: int) -> None:
    with subprocess.Popen(["sleep", "1"]) as process:
        reaper = threading.Thread(target=process.wait)
        reaper.start()
        done = health_gate(port, process.pid, timeout_s=50)
        reaper.join()
    assert done.returncode == 1
    assert f"the engine (pid {process.pid}) is gone" in done.stdout


def test_another_server_on_the_port_does_not_pass_for_a_dead_engine(
    engine: subprocess.Popen[bytes], port: int
) -> None:
    assert health_gate(port, engine.pid).returncode == 0
    with subprocess.Popen(["sleep", "0.3"]) as dying:
        reaper = threading.Thread(target=dying.wait)
        reaper.start()
        done = health_gate(port, dying.pid)
        reaper.join()
    assert done.returncode == 1
    assert "is gone" in done.stdout


def test_without_a_process_to_watch(port: int) -> None:
    done = health_gate(port, 0)
    assert done.returncode == 1
    assert "MAINPID is not set" in done.stdout
