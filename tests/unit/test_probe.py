"""The probe against this very machine and against files of a test's own."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from sparkwright.facts import Machine
from sparkwright.paths import FILES
from sparkwright.preflight_seen import TOOLS
from tests.unit.machine_case import program

PROBE = program("probe")
TEXT = FILES / "opt/sparkwright/lib/probe.py"


def ask(**spec: Any) -> dict[str, Any]:
    state: dict[str, Any] = PROBE.answer(spec)
    return state


def path(place: Path, **more: Any) -> dict[str, Any]:
    return ask(kind="path", path=str(place), **more)


def test_it_runs_as_the_fact_sends_it() -> None:
    """The very command of the fact, through sh, with words that a shell would like to read."""
    specs = json.dumps([{"kind": "run", "argv": ["printf", "%s", "$HOME 'x' \"y\" `z` \\ \n"]}])
    command = Machine().command(specs)
    done = subprocess.run(
        ["sh", "-c", command.get_raw_value()], capture_output=True, text=True, check=True
    )
    states = Machine().process(done.stdout.splitlines())
    assert states == [{"rc": 0, "out": "$HOME 'x' \"y\" `z` \\ \n", "err": ""}]


def test_it_needs_the_standard_library_alone() -> None:
    argv = [sys.executable, "-I", "-S", "-c", TEXT.read_text(), '[{"kind": "host"}]']
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)[0]["euid"] == os.geteuid()


def test_answers_come_in_order_and_failures_end_nothing(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    specs = [
        {"kind": "path", "path": f"{tmp_path}/none"},
        {"kind": "path", "path": str(tmp_path / ("x" * 300))},
        {"kind": "path", "path": f"{tmp_path}/d"},
    ]
    states = [PROBE.answer(spec) for spec in specs]
    assert states[0] == {"type": "missing"}
    assert states[1]["error"].startswith("OSError: ")
    assert states[2]["type"] == "dir"


def test_a_question_that_takes_too_long_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def late(*_: Any, **__: Any) -> None:
        raise subprocess.TimeoutExpired("weights.py", 600)

    monkeypatch.setattr(PROBE.subprocess, "run", late)
    assert ask(kind="run", argv=["x"])["error"].startswith("TimeoutExpired: ")


def test_a_file(tmp_path: Path) -> None:
    place = tmp_path / "a file\n"
    place.write_bytes(b"\0\xff")
    place.chmod(0o640)
    state = path(place)
    assert state["type"] == "file"
    assert state["mode"] == "0640"
    assert state["size"] == 2
    assert state["sha256"] == hashlib.sha256(b"\0\xff").hexdigest()
    assert "text" not in state
    text = path(place, text=True)
    assert text["text"] == "\0\ufffd"
    assert "sha256" not in text


def test_other_kinds_of_paths(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("nowhere at all")
    assert path(tmp_path / "link")["type"] == "link"
    assert path(tmp_path / "link")["target"] == "nowhere at all"
    os.mkfifo(tmp_path / "fifo")  # would hang when it were read
    assert path(tmp_path / "fifo")["type"] == "other"
    assert path(tmp_path / "fifo/below") == {"type": "missing"}
    tmp_path.chmod(0o2750)
    assert path(tmp_path)["mode"] == "2750"


def test_owners_without_a_name_are_numbers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def unknown(_: int) -> Any:
        raise KeyError

    monkeypatch.setattr(PROBE.pwd, "getpwuid", unknown)
    assert path(tmp_path)["owner"] == str(os.getuid())


def test_listing_is_newest_first(tmp_path: Path) -> None:
    for age, name in enumerate(["new", "middle", "old"]):
        (tmp_path / name).mkdir()
        stamp = tmp_path / name / ".stamp"
        stamp.touch()
        os.utime(stamp, (1000 - age, 1000 - age))
    (tmp_path / "unstamped").mkdir()
    found = ask(kind="listing", pattern=f"{tmp_path}/*/.stamp")
    assert found == {"paths": [f"{tmp_path}/{n}/.stamp" for n in ("new", "middle", "old")]}
    assert ask(kind="listing", pattern=f"{tmp_path}/none/*") == {"paths": []}


def test_run_gives_status_both_outputs_and_input() -> None:
    argv = ["sh", "-c", "cat; echo $LC_ALL >&2; pwd; exit 3"]
    assert ask(kind="run", argv=argv, stdin="in") == {"rc": 3, "out": "in/\n", "err": "C\n"}
    assert ask(kind="run", argv=["printf", r"\377"])["out"] == "\ufffd"


@pytest.mark.parametrize("program_path", ["no-such-program", "/etc/passwd", "/etc/passwd/x"])
def test_a_program_that_cannot_run_is_status_127(program_path: str) -> None:
    state = ask(kind="run", argv=[program_path])
    assert (state["rc"], state["out"]) == (127, "")
    assert state["err"]


def test_packages_knows_installed_and_absent_ones() -> None:
    versions = ask(kind="packages", names=["dpkg", "no-such-package-here"])["versions"]
    assert set(versions) == {"dpkg"}
    assert versions["dpkg"][0].isdigit()


def test_a_removed_package_with_configuration_left_is_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = tmp_path / "dpkg-query"
    query.write_text(
        "#!/bin/sh\nprintf 'a\\tconfig-files\\t1\\nb\\tinstalled\\t2:3~x\\n'\nexit 1\n"
    )
    query.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert ask(kind="packages", names=["a", "b"]) == {"versions": {"b": "2:3~x"}}


def test_sysctl_reads_what_is_in_force() -> None:
    values = ask(kind="sysctl", keys=["kernel.ostype", "net.ipv4.ip_local_port_range", "no.such"])
    assert values["values"]["kernel.ostype"] == "Linux"
    assert len(values["values"]["net.ipv4.ip_local_port_range"].split()) == 2
    assert values["values"]["no.such"] is None


def test_host_reads_memory_clock_and_tools() -> None:
    before = time.time()
    state = ask(kind="host", tools=[*TOOLS, "no-such-tool"])
    assert before <= state["clock"] <= time.time()
    assert state["mem_total"] > 2**28
    assert state["arch"] == os.uname().machine
    assert len(state["os"].split()) == 2
    assert state["python"] == list(sys.version_info[:2])
    assert state["tools"]["no-such-tool"] is None


def test_disk_of_a_path_that_does_not_exist_yet(tmp_path: Path) -> None:
    state = ask(kind="disk", path=f"{tmp_path}/not/yet/there")
    free = os.statvfs(tmp_path)
    assert state["free"] == pytest.approx(free.f_bavail * free.f_frsize, rel=0.1)
    assert state["readonly"] is False
    assert ask(kind="disk", path="/proc")["noexec"] is bool(os.statvfs("/proc").f_flag & 8)


def test_ports_names_program_and_holder() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        holders = ask(kind="ports")["ports"][str(port)]
    assert len(holders) == 1
    assert f"(pid {os.getpid()}, " in holders[0]


SS = """LISTEN 0 4096 127.0.0.1:8080 0.0.0.0:* users:(("llama-server",pid=0,fd=9))
LISTEN 0 128 [::]:22 [::]:* users:(("sshd",pid=0,fd=3),("systemd",pid=1,fd=9))
LISTEN 0 128 *:8080 *:*
LISTEN 0 128 10.0.0.1%eth0:53 0.0.0.0:*
"""


def test_ports_reads_every_shape_of_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ss").write_text(f"#!/bin/sh\ncat <<'X'\n{SS}X\n")
    (tmp_path / "ss").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert ask(kind="ports")["ports"] == {
        "8080": ["llama-server (pid 0, ?)", "? (pid ?, ?)"],
        "22": ["sshd (pid 0, ?)"],
        "53": ["? (pid ?, ?)"],
    }


def test_unit_reads_the_digest_of_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = {**os.environ, "SPARKWRIGHT_DIGEST": "0123456789ab"}
    running = subprocess.Popen(["sleep", "60"], env=env)
    try:
        while b"sleep" not in Path(f"/proc/{running.pid}/cmdline").read_bytes():
            os.sched_yield()  # between fork and exec the environment is still ours
        shown = f"LoadState=loaded\nActiveState=active\nMainPID={running.pid}\nDropInPaths=\n"
        tool = tmp_path / "systemctl"
        tool.write_text(f"#!/bin/sh\ncat <<'X'\n{shown}X\n")
        tool.chmod(stat.S_IRWXU)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        state = ask(kind="unit", name="llm-tiny.service")
    finally:
        running.kill()
        running.wait()
    assert state == {
        "LoadState": "loaded",
        "ActiveState": "active",
        "MainPID": str(running.pid),
        "DropInPaths": "",
        "digest": "0123456789ab",
        "exe": str(Path("/usr/bin/sleep").resolve()),
    }
    # The process is gone meanwhile: no digest, no failure.
    assert ask(kind="unit", name="llm-tiny.service")["digest"] == ""


def test_the_probe_changes_nothing() -> None:
    """It opens nothing for writing; `run` gets commands that read."""
    text = TEXT.read_text()
    for word in ("write", '"w"', '"a"', "unlink", "mkdir", "chmod", "chown", "remove", "rename"):
        assert word not in text, word
