"""The push to real machines: through a jump host, with a password for sudo, and cut."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from tests.airgap.place import Site, slow
from tests.e2e import support
from tests.lab.lab import start_lab
from tests.lab.machine import Machine

pytestmark = pytest.mark.lab

PYINFRA = str(Path(support.PROGRAM).with_name("pyinfra"))
PLACE = "/srv/sparkwright/bundle"
PARTS = f"sudo sh -c 'stat -c %s {PLACE}/.sparkwright/incoming/*.part'"
PASSWORD = "LAB_SUDO_PASSWORD"
SLOW = "8mbit"  # a megabyte a second: a file of several lasts


class Case:
    """A filled bundle and machines that get it.

    + fleet: pushes to the first machine as an account without a password for sudo
    """

    def __init__(self, site: Site) -> None:
        self.site = site
        self.one, self.two = site.lab.machines
        self.fleet = site.say_from("bundle", path=str(site.bundle))
        self.largest = max(site.bundle.rglob("*"), key=lambda path: path.stat().st_size)

    def changed(self, name: str, ssh: Mapping[str, object], **more: object) -> Path:
        """The fleet with other words for the first machine."""
        data = yaml.safe_load(self.fleet.read_text())
        data["sparks"]["spark-1"].update(ssh=ssh, **more)
        path = self.fleet.with_name(f"{name}.yaml")
        path.write_text(yaml.safe_dump(data, sort_keys=False))
        return path

    def start(
        self, fleet: Path | None = None, env: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        """Begin a push."""
        words = ["inventory.py", "tests/e2e/push_deploy.py", "-y", "--limit", "spark-1"]
        full = {**os.environ, "SPARKS_FILE": str(fleet or self.fleet), **(env or {})}
        full |= {"PYTHONPATH": str(support.PROJECT), "PYINFRA_PROGRESS": "off"}
        return subprocess.Popen([PYINFRA, *words], cwd=support.PROJECT, env=full, text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT)  # fmt: skip

    def push(
        self, fleet: Path | None = None, env: Mapping[str, str] | None = None, code: int = 0
    ) -> str:
        """Push; what the user sees."""
        child = self.start(fleet, env)
        said = child.communicate()[0]
        assert child.returncode == code, said[-3000:]
        return said

    def forget(self) -> None:
        """The first machine has nothing of the bundle."""
        self.one.ssh(f"sudo rm -rf {PLACE}")

    def same(self) -> None:
        """The largest file is there as it is here, and nothing is half there."""
        name = self.largest.relative_to(self.site.bundle)
        there = self.one.ssh(f"sha256sum {PLACE}/{name}").stdout.split()[0]
        here = subprocess.run(["sha256sum", self.largest], capture_output=True, text=True)
        assert there == here.stdout.split()[0]
        assert self.one.ssh(PARTS, check=False).stdout == ""

    @contextmanager
    def travelling(self) -> Iterator[subprocess.Popen[str]]:
        """A push on a slow cable whose largest file is under way."""
        self.forget()
        with slow(self.one, SLOW):
            child = self.start()
            try:
                wait_for_part(self.one, child)
                yield child
            finally:
                if child.poll() is None:
                    child.kill()
                child.wait()


def wait_for_part(machine: Machine, child: subprocess.Popen[str]) -> None:
    """Until more of a file has come than pipes and buffers hold."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and child.poll() is None:
        sizes = machine.ssh(PARTS, check=False).stdout.split()
        if any(int(size) > 4 * 10**6 for size in sizes):
            return
        time.sleep(0.2)
    said = child.communicate(timeout=60)[0] if child.poll() is not None else "it still runs"
    raise AssertionError(f"no part: {said[-3000:]}")


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Case]:
    with start_lab(machines=2) as lab:
        site = Site(lab, tmp_path_factory.mktemp("push"), {"spark-1": ["tiny-llama-llamacpp"]})
        site.fill()
        yield Case(site)


def test_a_push_through_a_jump_host_with_a_password_for_sudo(case: Case) -> None:
    case.forget()
    common = {"user": "sparkpw", "jump": f"spark@{case.two.address}"}
    fleet = case.changed("jump", common, sudo={"password_env": PASSWORD})
    before = logins(case)
    said = case.push(fleet, {PASSWORD: "lab-password"})
    assert "MB sent, 0.0 MB were there" in said, said[-3000:]
    case.same()
    # pyinfra's own connection and that of the files, both from the jump host.
    assert logins(case) - before >= 2
    assert "lab-password" not in said
    assert "MB sent" not in case.push(fleet, {PASSWORD: "lab-password"})


def logins(case: Case) -> int:
    """How often sparkpw came from the jump host."""
    log = case.one.ssh("sudo journalctl --no-pager -o cat -t sshd").stdout
    return log.count(f"Accepted publickey for sparkpw from {case.two.address} ")


def test_a_push_that_is_cut_goes_on_in_the_middle_of_a_file(case: Case) -> None:
    """The cable is pulled: either side notices after half a minute of silence."""
    with case.travelling() as child:
        case.one.link_down()
        try:
            said = child.communicate(timeout=180)[0]
        finally:
            case.one.link_up()
        assert child.returncode, said[-3000:]
    sizes = case.one.ssh(PARTS).stdout.split()
    said = case.push()
    were = f"{sum(map(int, sizes)) / 1e6:.1f} MB were there"
    assert were in said, f"{were}: {said[-3000:]}"
    case.same()
