"""inventory.py through the real pyinfra command line, and the data that hosts get."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sparkwright.errors import SparkwrightError
from sparkwright.fleet import load_fleet
from sparkwright.fleet_jump import proxy_command
from sparkwright.fleet_pyinfra import Groups, to_pyinfra
from sparkwright.fleet_ssh import Ssh
from sparkwright.paths import PROJECT

FLEET = """
defaults: {ssh: {user: me}, settings: {memory_reserve_gib: 9}}
sparks:
  a: {address: 127.0.0.1, groups: [rack-a], serve: [gpt-oss-120b-llamacpp]}
  b: {address: 127.0.0.2, settings: {clock_offset_max_s: 5}}
"""
SETTINGS: dict[str, object] = {
    "listen": "127.0.0.1",
    "api_key": "none",
    "memory_reserve_gib": 12,
    "clock_offset_max_s": 60,
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory with an empty known_hosts file, for this process and its children."""
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh/known_hosts").touch()
    monkeypatch.setenv("HOME", str(home))
    for name in ("SPARKS_FILE", "XDG_CACHE_HOME", "PW"):
        monkeypatch.delenv(name, raising=False)
    return home


@pytest.fixture
def project(tmp_path: Path, home: Path) -> Path:
    """A project directory as a clone has it, with a fleet file."""
    project = tmp_path / "project"
    project.mkdir()
    shutil.copy(PROJECT / "inventory.py", project)
    for name in ("group_data", "recipes"):
        shutil.copytree(PROJECT / name, project / name)
    (project / "sparks.yaml").write_text(FLEET)
    return project


def pyinfra(
    project: Path, *words: str, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pyinfra", "inventory.py", *words],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(PROJECT), **(env or {})},
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
        check=False,
    )


def groups_shown(output: str) -> list[set[str]]:
    lines = [line for line in output.splitlines() if "Groups:" in line]
    return [set(line.split("Groups: ")[1].split(", ")) for line in lines]


def test_only_hosts_and_their_groups_come_out_of_the_inventory(project: Path) -> None:
    done = pyinfra(project, "debug-inventory")
    assert done.returncode == 0, done.stderr
    output = done.stdout + done.stderr
    assert groups_shown(output) == [
        {"sparks", "rack-a", "inventory"},
        {"sparks", "inventory"},
    ]
    # A stray public list would have become hosts or groups of its own.
    hosts = {line.strip() for line in output.splitlines() if line.startswith("[")}
    assert hosts == {"[a]", "[b]"}
    assert '"memory_reserve_gib": 9' in output
    assert '"clock_offset_max_s": 5' in output
    assert '"ssh_strict_host_key_checking": "yes"' in output


def test_the_inventory_prints_nothing_on_stdout(project: Path) -> None:
    code = "import runpy; runpy.run_path('inventory.py')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("", "")


def test_data_on_the_command_line_wins(project: Path) -> None:
    done = pyinfra(project, "--data", "memory_reserve_gib=3", "--limit", "a", "debug-inventory")
    assert '"memory_reserve_gib": 3' in done.stdout + done.stderr


def test_a_bad_file_ends_with_an_error_and_nothing_is_contacted(project: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        good = f"sparks: {{a: {{address: 127.0.0.1, ssh: {{port: {port}}}}}}}"
        (project / "sparks.yaml").write_text(f"xyzzy: red\nserve: x\n{good}")
        done = pyinfra(project, "exec", "--", "true")
        server.settimeout(0)
        with pytest.raises(BlockingIOError):
            server.accept()
    assert done.returncode == 1
    known = "known: artifacts, clusters, defaults, recipes, rollout, sparks"
    assert done.stderr.endswith(
        f"sparks.yaml: unknown key xyzzy; {known}\nsparks.yaml: unknown key serve; {known}\n"
        "Nothing was contacted.\n"
    )
    assert "Traceback" not in done.stderr


def test_a_missing_file_says_how_to_get_one(project: Path) -> None:
    (project / "sparks.yaml").unlink()
    done = pyinfra(project, "debug-inventory")
    assert done.returncode == 1
    assert (
        "sparks.yaml: no such file; cp sparks.example.yaml sparks.yaml, then edit it" in done.stderr
    )


def test_missing_defaults_are_told_without_a_traceback(project: Path) -> None:
    (project / "group_data/all.py").unlink()
    done = pyinfra(project, "debug-inventory")
    assert done.returncode == 1
    path = project / "group_data/all.py"
    assert f"{path}: no such file; it holds every default: restore it\n" in done.stderr
    assert "Traceback" not in done.stderr


def test_sparks_file_names_another_fleet(project: Path, tmp_path: Path) -> None:
    other = tmp_path / "lab.yaml"
    other.write_text("sparks: {z: {address: 10.0.0.9}}")
    done = pyinfra(project, "debug-inventory", env={"SPARKS_FILE": str(other)})
    assert "[z]" in done.stdout + done.stderr
    assert "[a]" not in done.stdout + done.stderr


def test_ordinary_pyinfra_inventories_still_work(project: Path) -> None:
    (project / "inventory.py").write_text('mine = ["@local"]\n')
    assert "[@local]" in "".join(pyinfra(project, "debug-inventory").stderr)


def groups(project: Path, text: str) -> Groups:
    path = project / "sparks.yaml"
    path.write_text(text)
    return to_pyinfra(load_fleet(path, SETTINGS))


def data(project: Path, spark: str) -> dict[str, Any]:
    """Host data of a fleet with one spark called a."""
    found = groups(project, f"sparks: {{a: {{address: 10.0.0.1, {spark}}}}}")
    ((_, values),) = found["sparks"]
    return values


def error(project: Path, spark: str) -> str:
    with pytest.raises(SparkwrightError) as caught:
        data(project, spark)
    return str(caught.value)


def test_an_air_gap_is_in_the_data_of_every_spark(project: Path, home: Path) -> None:
    bundle = "artifacts: {from: bundle, path: usb/b}\nsparks: {a: {address: 10.0.0.1}}"
    values = groups(project, bundle)["sparks"][0][1]
    assert (values["artifacts_from"], values["artifacts_path"]) == ("bundle", f"{project}/usb/b")
    mirror = "artifacts: {from: mirror, url: 'http://x:8000/b/'}\nsparks: {a: {address: 10.0.0.1}}"
    values = groups(project, mirror)["sparks"][0][1]
    assert (values["artifacts_from"], values["artifacts_url"]) == ("mirror", "http://x:8000/b")


def test_every_spark_is_in_its_groups_with_all_its_data(project: Path, home: Path) -> None:
    found = groups(project, FLEET)
    assert {name: [host for host, _ in hosts] for name, hosts in found.items()} == {
        "sparks": ["a", "b"],
        "rack-a": ["a"],
    }
    assert found["rack-a"][0] == found["sparks"][0]
    assert found["sparks"][0][1] == {
        "artifacts_from": "upstream",
        "artifacts_url": "",
        "artifacts_path": "",
        "artifacts_library": "",
        "artifacts_library_copy": False,
        "artifacts_key": str(project / "bundle-key.asc"),
        "memory_reserve_gib": 9,
        "lock_file": found["sparks"][0][1]["lock_file"],
        "recipe_dirs": [str(project / "recipes")],
        "serve": [
            {
                "recipe": "gpt-oss-120b-llamacpp",
                "port": None,
                "listen": None,
                "api_key": None,
                "state": "running",
            }
        ],
        "peers": [
            {"name": "b", "address": "127.0.0.2", "listen": None, "api_key": None, "serve": []}
        ],
        "cluster": {},
        "rollout_batch": 1,
        "ssh_hostname": "127.0.0.1",
        "ssh_user": "me",
        "ssh_port": 22,
        "ssh_known_hosts_file": str(home / ".ssh/known_hosts"),
        "ssh_strict_host_key_checking": "yes",
    }


def test_the_sudo_password_comes_from_the_environment(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = "sudo: {password_env: PW}"
    assert error(project, line) == (
        "sparks.yaml: sparks/a/sudo: the variable PW is not set; read -rs PW && export PW"
    )
    monkeypatch.setenv("PW", "hunter2")
    assert data(project, line)["_sudo_password"] == "hunter2"
    assert "_sudo_password" not in data(project, "serve: []")


def test_missing_key_and_config_files_are_told_together(project: Path) -> None:
    assert error(project, "ssh: {key: k, config: ~/c}").splitlines() == [
        f"sparks.yaml: sparks/a/ssh/key: no readable file {project}/k; "
        "correct the path; it is relative to the fleet file",
        f"sparks.yaml: sparks/a/ssh/config: no readable file {project.parent}/home/c; "
        "correct the path; it is relative to the fleet file",
    ]


def test_strict_host_keys_need_a_known_hosts_file(project: Path, home: Path) -> None:
    (home / ".ssh/known_hosts").unlink()
    assert error(project, "ssh: {user: me}") == (
        f"sparks.yaml: sparks/a/ssh/known_hosts: no file {home}/.ssh/known_hosts; "
        "log in once by hand (ssh me@10.0.0.1), or set host_keys: accept-new"
    )


def test_accept_new_makes_the_file_it_writes_to(project: Path, home: Path) -> None:
    values = data(project, "ssh: {host_keys: accept-new, known_hosts: ~/lab/hosts}")
    assert values["ssh_strict_host_key_checking"] == "accept-new"
    path = home / "lab/hosts"
    assert values["ssh_known_hosts_file"] == str(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_jump_host_is_reached_through_ssh_with_checked_keys(project: Path, home: Path) -> None:
    (home / ".ssh/config").write_text("Host *\n  User other\n  ProxyJump elsewhere\n")
    values = data(project, "ssh: {port: 2022, jump: 'admin@bastion:2222'}")
    path = Path(values["ssh_config_file"])
    assert path.is_relative_to(home / ".cache/sparkwright/ssh")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text().splitlines()[1:] == [
        "Host *",
        "  Port 2022",
        "  ProxyCommand ssh -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=15 "
        "-o ServerAliveCountMax=2 -o StrictHostKeyChecking=yes "
        f"-o 'UserKnownHostsFile=\"{home}/.ssh/known_hosts\"' -p 2222 -W [%h]:%p admin@bastion",
        f"Include {home}/.ssh/config",
    ]


def test_pyinfra_and_openssh_both_read_the_jump_configuration(
    project: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyinfra.connectors.sshuserclient import client

    (home / ".ssh/config").write_text("Host 10.*\n  ProxyJump elsewhere\n  User other\n")
    values = data(project, "ssh: {port: 2022, jump: bastion}")
    monkeypatch.setattr(client, "ProxyCommand", lambda line: line)
    parsed = client.SSHClient().parse_config("10.0.0.1", ssh_config_file=values["ssh_config_file"])
    options = parsed[1]
    assert options["sock"].endswith(" -W [10.0.0.1]:2022 bastion")
    assert options["username"] == "other"
    seen = subprocess.run(
        ["ssh", "-G", "-F", values["ssh_config_file"], "10.0.0.1"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "-W [%h]:%p bastion\n" in seen
    assert "port 2022\n" in seen
    assert "proxyjump" not in seen


def test_a_proxyjump_of_the_users_configuration_is_made_safe_too(project: Path, home: Path) -> None:
    (home / ".ssh/config").write_text("Host 10.*\n  ProxyJump me@hop:99\n")
    path = Path(data(project, "ssh: {user: u}")["ssh_config_file"])
    assert "-p 99 -W [%h]:%p me@hop\n" in path.read_text()
    (home / ".ssh/config").write_text("Host 11.*\n  ProxyJump me@hop:99\n")
    assert "ssh_config_file" not in data(project, "ssh: {user: u}")


def test_the_proxy_command_quotes_paths_and_takes_ipv6() -> None:
    ssh = Ssh(
        key="/a b/key",
        config="/a b/config",
        known_hosts="/a b/hosts",
        host_keys="accept-new",
        jump="me@[fd00::9]:22",
    )
    assert proxy_command(ssh) == (
        "ssh -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=15 "
        "-o ServerAliveCountMax=2 -o StrictHostKeyChecking=accept-new "
        "-o 'UserKnownHostsFile=\"/a b/hosts\"' -F '/a b/config' -i '/a b/key' -p 22 "
        "-W [%h]:%p me@fd00::9"
    )
