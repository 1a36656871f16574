"""Packages, accounts, kernel values, restarts and the API key: what counts as drift, what mends."""

from __future__ import annotations

import getpass
import grp
import os
import re
import stat
import subprocess
from pathlib import Path

import pytest

from sparkwright.resources import File, State
from sparkwright.system import Packages, Restarted, Secret, Sysctl, User
from tests.unit.fake_machine import state_of
from tests.unit.machine_case import program

USER = getpass.getuser()
GROUP = grp.getgrgid(os.getgid()).gr_name
PROBE = program("probe")
APT = "python3 /opt/sparkwright/lib/apt_install.py"

PACKAGE_ROWS: list[tuple[dict[str, str], list[str], str]] = [
    ({"gpg": "2.4", "cuda": "13.0"}, [], ""),
    ({}, ["package cuda: not installed", "package gpg: not installed"],
     f"{APT} cuda=13.0 gpg"),
    ({"cuda": "13.0"}, ["package gpg: not installed"], f"{APT} gpg"),
    ({"cuda": "12.9", "gpg": "1"}, ["package cuda: is 12.9, not 13.0"], f"{APT} cuda=13.0"),
]  # fmt: skip


@pytest.mark.parametrize(("versions", "drift", "command"), PACKAGE_ROWS)
def test_packages_install_only_what_is_wrong(
    versions: dict[str, str], drift: list[str], command: str
) -> None:
    wanted, seen = Packages({"gpg": None, "cuda": "13.0"}), [{"versions": versions}]
    assert wanted.drift(seen) == drift
    if drift:
        assert [c.shell for c in wanted.fix(seen)] == [command]


def test_packages_quote_names() -> None:
    seen: list[State] = [{"error": "OSError"}]
    assert [c.shell for c in Packages({"a;b": "1~x"}).fix(seen)] == [f"{APT} 'a;b=1~x'"]


def test_packages_are_all_asked_for_at_once() -> None:
    assert Packages({"b": None, "a": "1"}).probes() == [{"kind": "packages", "names": ["a", "b"]}]


ACCOUNT: State = {
    "exists": True,
    "home": "/srv/s",
    "groups": ["llm", "render", "video"],
    "known": ["llm", "render", "video", "root"],
}
USER_ROWS: list[tuple[State, list[str]]] = [
    (ACCOUNT, []),
    ({"exists": False}, ["user llm: does not exist"]),
    ({"error": "OSError"}, ["user llm: does not exist"]),
    ({**ACCOUNT, "groups": ["llm", "video"]}, ["user llm: not in group render"]),
    # No GPU driver, no group: a converge must not fail or report drift for ever.
    ({**ACCOUNT, "groups": ["llm", "video"], "known": ["llm", "video"]}, []),
    (
        {**ACCOUNT, "groups": ["997", "render", "video"], "known": ["render", "video", "root"]},
        ["user llm: group llm does not exist"],
    ),
    (
        {**ACCOUNT, "home": "/home/llm", "groups": ["llm"]},
        ["user llm: not in group video, not in group render, home is /home/llm, not /srv/s"],
    ),
]


@pytest.mark.parametrize(("state", "drift"), USER_ROWS)
def test_user_drift(state: State, drift: list[str]) -> None:
    assert User("llm", "/srv/s", ("video", "render")).drift([state]) == drift


def test_user_is_made_without_login_and_moved_only_when_it_exists() -> None:
    user = User("llm", "/srv/a b", ("video",))
    new = [c.shell for c in user.fix([{"exists": False}])]
    assert "--shell /usr/sbin/nologin" in new[0]
    assert "--home-dir '/srv/a b'" in new[0]
    assert not any("vipw" in text for text in new)
    moved = [c.shell for c in user.fix([{**ACCOUNT, "home": "/x"}])]
    assert len([text for text in moved if "vipw" in text]) == 1


@pytest.mark.parametrize("home", ["/srv/a b", "/srv/a,b&c", "/srv/it's", "/srv/$HOME"])
def test_a_home_is_moved_while_the_account_is_in_use(tmp_path: Path, home: str) -> None:
    """usermod refuses then; the fake vipw does with $EDITOR what the real one does."""
    passwd = tmp_path / "passwd"
    others = "llmx:x:1:1::/x:/bin/sh\nroot:x:0:0::/root:/bin/sh\n"
    passwd.write_text(f"{others}llm:x:999:997:a, b:/old:/usr/sbin/nologin\n")
    (tmp_path / "vipw").write_text(f'#!/bin/sh\nexec sh -c "$EDITOR {passwd}"\n')
    (tmp_path / "vipw").chmod(0o755)
    found = User("llm", home).fix([{**ACCOUNT, "home": "/old"}])
    move = next(c.shell for c in found if "vipw" in c.shell)
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    subprocess.run(["sh", "-c", move], env=env, check=True)
    assert passwd.read_text() == f"{others}llm:x:999:997:a, b:{home}:/usr/sbin/nologin\n"


def test_user_commands_pass_over_a_group_that_the_machine_lacks() -> None:
    """Run for real, with useradd and usermod that would fail loudly."""
    make, group, join = User("root", "/root", ("no-such-group-here",)).fix([{"exists": False}])
    for command in (make, group, join):
        done = subprocess.run(["sh", "-c", command.shell], capture_output=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_user_probe_knows_root_and_nobody_else() -> None:
    state = PROBE.answer({"kind": "user", "name": "root"})
    assert User("root", "/root").drift([state]) == []
    assert PROBE.answer({"kind": "user", "name": "no-such-user"}) == {"exists": False}


def test_sysctl_sets_only_what_differs() -> None:
    wanted = Sysctl({"vm.swappiness": "10", "kernel.x": "1 2"})
    seen: list[State] = [{"values": {"vm.swappiness": "60", "kernel.x": "1 2"}}]
    assert wanted.drift(seen) == ["sysctl vm.swappiness: 60, not 10"]
    assert [c.shell for c in wanted.fix(seen)] == ["sysctl -q -w vm.swappiness=10"]
    assert wanted.drift([{"values": {"vm.swappiness": "10", "kernel.x": "1 2"}}]) == []
    assert wanted.drift([{"values": {"vm.swappiness": None}}]) == [
        "sysctl kernel.x: None, not 1 2",
        "sysctl vm.swappiness: None, not 10",
    ]


RESTART_ROWS = [
    ("@1000\n", "1000\n", True),
    ("@1000\n", "999\n", True),
    ("@1000\n", "1001\n", False),  # written later: a run died before the restart
    ("\n", "999\n", False),  # never started
    ("@1000\n", "", False),  # no file
    ("@9\n", "10\n", False),  # numbers, not text
]


@pytest.mark.parametrize(("started", "written", "fine"), RESTART_ROWS)
def test_restarted_compares_start_and_file(started: str, written: str, fine: bool) -> None:
    file = File("/etc/x", "text")
    wanted, good = Restarted("x.service", file), state_of(file)
    late = ["x.service: started before /etc/x was written"]
    assert wanted.drift([{"out": started}, {"out": written}, good]) == ([] if fine else late)
    # The file is mended in the same run, whatever its old time was.
    for changes in ({"sha256": "0"}, {"mode": "0666"}, {"type": "missing"}):
        assert wanted.drift([{"out": started}, {"out": written}, {**good, **changes}]) == late
    assert [c.shell for c in wanted.fix([])] == ["systemctl restart x.service"]


def secret(path: Path) -> Secret:
    return Secret(str(path), USER, GROUP, "0640")


def test_secret_is_made_once_and_kept(tmp_path: Path) -> None:
    wanted = secret(tmp_path / "a key")
    seen = [PROBE.answer(spec) for spec in wanted.probes()]
    assert wanted.drift(seen) == [f"{tmp_path}/a key: no key"]
    for command in wanted.fix(seen):
        subprocess.run(["sh", "-c", command.shell], check=True, umask=0)
        assert command.stdin is None
    key = (tmp_path / "a key").read_text()
    assert re.fullmatch(r"[A-Za-z0-9+/]{43}", key)
    assert [path.name for path in tmp_path.iterdir()] == ["a key"]
    seen = [PROBE.answer(spec) for spec in wanted.probes()]
    assert wanted.drift(seen) == []
    assert key not in str(seen)


def test_secret_is_not_made_anew_for_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("kept")
    path.chmod(0o666)
    wanted = secret(path)
    seen = [PROBE.answer(spec) for spec in wanted.probes()]
    assert wanted.drift(seen) == [f"{path}: mode is 0666, not 0640"]
    for command in wanted.fix(seen):
        subprocess.run(["sh", "-c", command.shell], check=True)
    assert path.read_text() == "kept"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_an_empty_key_is_no_key(tmp_path: Path) -> None:
    """An empty file would let everybody in."""
    (tmp_path / "key").touch(mode=0o640)
    wanted = secret(tmp_path / "key")
    seen = [PROBE.answer(spec) for spec in wanted.probes()]
    assert wanted.drift(seen) == [f"{tmp_path}/key: no key"]
    for command in wanted.fix(seen):
        subprocess.run(["sh", "-c", command.shell], check=True)
    assert len((tmp_path / "key").read_text()) == 43
