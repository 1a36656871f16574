"""No way in, or not as root: refused with exact lines, and nothing is changed."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from tests.e2e import refusing
from tests.e2e.refusing import (
    END,
    Bench,
    Fault,
    broken,
    nothing_contacted,
    preflight,
    ssh,
    unchanged,
)
from tests.lab.lab import start_lab

pytestmark = pytest.mark.lab

WRONG_ARCH = Fault(settings={"arch": "riscv64"})
PASSWORD = "LAB_SUDO_PASSWORD"
TYPED = "not-the-password-7381"


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with start_lab(machines=2) as lab:
        yield Bench(lab, tmp_path_factory.mktemp("access"))


@pytest.fixture
def line(bench: Bench) -> str:
    """What a run says that got as far as asking the machine as root."""
    real = bench.one.ssh("uname -m").stdout.strip()
    return f"spark-1: arch: is {real}, not riscv64; set `arch` for a machine that is not a Spark"


# --- sudo ---


def test_sudo_that_wants_a_password_and_gets_none(bench: Bench) -> None:
    with unchanged(bench.one):
        preflight(
            bench.fleet(Fault(user="sparkpw")),
            ["spark-1: sudo: asks for a password and none is set; set sudo.password_env in "
             "sparks.yaml and export that variable, or allow passwordless sudo"],
        )  # fmt: skip


def test_a_password_variable_that_is_not_set(bench: Bench) -> None:
    with unchanged(bench.one):
        nothing_contacted(
            bench.fleet(Fault(user="sparkpw", password_env=PASSWORD)),
            [f"sparks.yaml: sparks/spark-1/sudo: the variable {PASSWORD} is not set; "
             f"read -rs {PASSWORD} && export {PASSWORD}", "Nothing was contacted."],
        )  # fmt: skip


def test_a_wrong_password_is_refused_and_shown_nowhere(bench: Bench) -> None:
    fleet = bench.fleet(Fault(user="sparkpw", password_env=PASSWORD))
    with unchanged(bench.one):
        done = refusing.run(fleet, env={PASSWORD: TYPED})
    assert done.stdout.splitlines() == [
        "spark-1: sudo: did not run as root; is the password right?", END
    ]  # fmt: skip
    journal = bench.one.ssh("sudo journalctl --no-pager -o verbose").stdout
    assert "sparkpw" in journal
    for text in (done.stdout, done.stderr, journal):
        assert TYPED not in text


def test_the_right_password_leads_to_the_end_of_preflight(bench: Bench, line: str) -> None:
    fleet = bench.fleet(WRONG_ARCH, Fault(user="sparkpw", password_env=PASSWORD))
    with unchanged(bench.one):
        preflight(fleet, [line], env={PASSWORD: "lab-password"})


def test_a_password_and_a_noexec_tmp(bench: Bench) -> None:
    fleet = bench.fleet(Fault(user="sparkpw", password_env=PASSWORD))
    mount = "mount -t tmpfs -o noexec,mode=1777 tmpfs /tmp"
    with broken(bench.one, mount, "umount /tmp"), unchanged(bench.one):
        preflight(
            fleet,
            ["spark-1: /tmp: is mounted noexec; sudo with a password runs a helper there; mount "
             "it without noexec, or use passwordless sudo"],
            env={PASSWORD: "lab-password"},
        )  # fmt: skip


# --- ssh ---


def test_an_unknown_host_key_is_refused_and_not_remembered(bench: Bench) -> None:
    known = bench.folder / "known_nobody"
    known.touch()
    with unchanged(bench.one):
        done = refusing.run(bench.fleet(ssh(known_hosts=str(known))))
    address = bench.one.address
    assert done.stdout.splitlines() == [END]
    assert f"No host key for {address} found in known_hosts" in done.stderr
    assert known.read_text() == ""


def test_a_changed_host_key_is_refused(bench: Bench) -> None:
    known = bench.folder / "known_other"
    other = bench.lab.machines[1].address
    text = bench.lab.keys.known_hosts.read_text()
    key = next(line for line in text.splitlines() if line.startswith(f"{other} "))
    known.write_text(key.replace(other, bench.one.address) + "\n")
    with unchanged(bench.one):
        done = refusing.run(bench.fleet(ssh(known_hosts=str(known))))
    assert done.stdout.splitlines() == [END]
    assert f"Host key for {bench.one.address} does not match." in done.stderr
    assert known.read_text() == key.replace(other, bench.one.address) + "\n"


@pytest.mark.parametrize("name", ["user", "key", "port"])
def test_a_login_that_fails(bench: Bench, name: str) -> None:
    stranger = bench.folder / "stranger"
    if not stranger.exists():
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(stranger)]
        subprocess.run(words, check=True)
    address, key = bench.one.address, bench.lab.keys.user
    failed = "[spark-1] Authentication error (username={}, key={}) (Authentication failed.)"
    rows: dict[str, tuple[dict[str, object], str]] = {
        "user": ({"user": "nobody-here"}, failed.format("nobody-here", key)),
        "key": ({"key": str(stranger)}, failed.format("spark", stranger)),
        "port": ({"port": 2222}, f"[spark-1] Could not connect ([Errno None] Unable to connect to "
                 f"port 2222 on {address})"),
    }  # fmt: skip
    values, said = rows[name]
    with unchanged(bench.one):
        done = refusing.run(bench.fleet(ssh(**values)), env={"SSH_AUTH_SOCK": ""})
    assert done.stdout.splitlines() == [END]
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_files_that_are_not_there(bench: Bench) -> None:
    gone = bench.folder / "gone"
    values = {"key": str(gone), "known_hosts": str(gone), "config": str(gone)}
    nothing_contacted(
        bench.fleet(ssh(**values)),
        [
            f"sparks.yaml: sparks/spark-1/ssh/{name}: no readable file {gone}; correct the path; "
            "it is relative to the fleet file"
            for name in ("key", "config")
        ]
        + [f"sparks.yaml: sparks/spark-1/ssh/known_hosts: no file {gone}; log in once by hand "
           f"(ssh spark@{bench.one.address}), or set host_keys: accept-new",
           "Nothing was contacted."],
    )  # fmt: skip
    assert not gone.exists()


def test_a_limit_that_names_nothing(bench: Bench) -> None:
    lines = ["--limit: no spark or group named spark-l; did you mean spark-1?"]
    nothing_contacted(bench.fleet(), lines, "--limit", "spark-l")


# --- a jump host: the other machine ---


def through(bench: Bench, known: str) -> Fault:
    return ssh(jump=f"spark@{bench.lab.machines[1].address}", known_hosts=known)


def test_a_jump_host_leads_to_the_machine(bench: Bench, line: str) -> None:
    fleet = bench.fleet(WRONG_ARCH, through(bench, str(bench.lab.keys.known_hosts)))
    with unchanged(*bench.lab.machines):
        preflight(fleet, [line])
    log = bench.one.ssh("sudo journalctl --no-pager -o cat -t sshd").stdout
    assert f"Accepted publickey for spark from {bench.lab.machines[1].address} " in log


def test_the_jump_hosts_own_key_is_checked(bench: Bench) -> None:
    known = bench.folder / "known_target_only"
    text = bench.lab.keys.known_hosts.read_text()
    lines = [x for x in text.splitlines() if x.startswith(f"{bench.one.address} ")]
    known.write_text("\n".join(lines) + "\n")
    with unchanged(*bench.lab.machines):
        done = refusing.run(bench.fleet(WRONG_ARCH, through(bench, str(known))))
    assert done.stdout.splitlines() == [END]
    assert "[spark-1] SSH error (jump host: Host key verification failed.)" in done.stderr
    assert "Traceback" not in done.stderr
    assert known.read_text() == "\n".join(lines) + "\n"


def test_the_machines_key_is_checked_behind_the_jump_host_too(bench: Bench) -> None:
    known = bench.folder / "known_hop_only"
    hop = bench.lab.machines[1].address
    text = bench.lab.keys.known_hosts.read_text()
    known.write_text("\n".join(x for x in text.splitlines() if x.startswith(f"{hop} ")) + "\n")
    with unchanged(*bench.lab.machines):
        done = refusing.run(bench.fleet(WRONG_ARCH, through(bench, str(known))))
    assert done.stdout.splitlines() == [END]
    assert f"No host key for {bench.one.address} found in known_hosts" in done.stderr
