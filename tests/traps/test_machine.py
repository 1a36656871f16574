"""Traps that need a real machine: lost restarts, secrets on the way, host keys, Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sparkwright.paths import PROJECT
from tests.lab import Lab, Machine
from tests.traps.runs import BIN, command

pytestmark = pytest.mark.lab

SECRET = "trap-secret-4711-do-not-leak"
HERE = "tests/traps"
NAP = """
import json, sys, time
spec = json.load(open(sys.argv[1]))
assert open("/run/sparkwright/nap/secret").read() == {secret!r}
open("/var/tmp/nap.starts", "a").write("x")
open(spec["progress"], "w").write(json.dumps({{"phase": "napping"}}))
time.sleep({seconds})
open(spec["stamp"], "w").write(spec["digest"])
"""


def until(condition: Callable[[], bool], what: str, seconds: float = 60) -> None:
    """Wait for something on the machine."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.2)


class Site:
    """One lab machine that a fleet file names."""

    def __init__(self, lab: Lab, machine: Machine, place: Path) -> None:
        self.machine, self.place = machine, place
        self.fleet = lab.write_fleet(place / "sparks.yaml")
        self.env = {"SPARKS_FILE": str(self.fleet), "TRAP_SECRET": SECRET}

    def argv(self, deploy: str, *words: str) -> list[str]:
        return ["inventory.py", f"{HERE}/deploys/{deploy}.py", "-y", "--limit", "spark-1", *words]

    def run(self, deploy: str, *words: str) -> subprocess.CompletedProcess[str]:
        return command("pyinfra", *self.argv(deploy, *words), env=self.env)

    def changed(self, deploy: str) -> int:
        """Converge to the end; how many operations changed something."""
        run = self.run(deploy, "--json")
        assert run.returncode == 0, run.stderr
        totals = json.loads(run.stdout)["results"]["totals"]
        return int(totals["success"])

    def start(self, deploy: str) -> subprocess.Popen[bytes]:
        """The same run in a process group of its own, as a shell starts it."""
        env = {**os.environ, **self.env, "PYTHONPATH": str(PROJECT), "PYINFRA_PROGRESS": "off"}
        log = (self.place / "log").open("wb")
        return subprocess.Popen([str(BIN / "pyinfra"), *self.argv(deploy)], cwd=PROJECT, env=env,
                                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                start_new_session=True)  # fmt: skip

    def on(self, shell: str) -> str:
        return self.machine.ssh(f"sudo sh -c {json.dumps(shell)}").stdout.strip()

    def there(self, path: str) -> bool:
        return self.machine.ssh(f"sudo test -e {path}", check=False).returncode == 0

    def nap(self, seconds: float) -> None:
        """Put the work on the machine, not yet done."""
        self.on("rm -f /var/tmp/nap.*")
        text = NAP.format(secret=SECRET, seconds=seconds)
        self.machine.ssh("cat >/var/tmp/nap.py", input=text)


@pytest.fixture(scope="module")
def site(lab: Lab, machine: Machine, tmp_path_factory: pytest.TempPathFactory) -> Site:
    return Site(lab, machine, tmp_path_factory.mktemp("traps"))


def test_a_run_killed_between_write_and_restart_still_owes_the_restart(site: Site) -> None:
    """With _if=did_change the second run would see the file as wanted and restart nothing."""
    config = "/etc/systemd/journald.conf.d/60-sparkwright.conf"
    shim = "/usr/local/sbin/systemctl"  # before /usr/bin in sudo's path
    site.machine.ssh(
        f"sudo tee {shim} >/dev/null && sudo chmod 755 {shim}",
        input='#!/bin/sh\n[ "$1" != restart ] || { touch /run/restarting; sleep 100; exit 1; }\n'
        'exec /usr/bin/systemctl "$@"\n',
    )
    began = site.on("systemctl show -p InvocationID --value systemd-journald")
    run = site.start("journal")
    until(lambda: site.there("/run/restarting"), "the restart begins")
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    site.on(f"rm {shim} && pkill -f ^sleep.100")
    assert site.there(config)
    assert site.on("systemctl show -p InvocationID --value systemd-journald") == began
    assert site.changed("journal") == 1
    assert site.on("systemctl show -p InvocationID --value systemd-journald") != began
    assert site.changed("journal") == 0


def test_a_file_that_looks_old_is_mended_and_its_service_restarted_in_one_run(site: Site) -> None:
    """The file's time alone would say that the service has read it."""
    config = "/etc/systemd/journald.conf.d/60-sparkwright.conf"
    site.on(f"cp -p {config} /var/tmp/was; echo >>{config}; touch -r /var/tmp/was {config}")
    began = site.on("systemctl show -p InvocationID --value systemd-journald")
    assert site.changed("journal") == 1
    assert site.on("systemctl show -p InvocationID --value systemd-journald") != began
    assert site.changed("journal") == 0


def test_a_secret_is_never_readable_for_others_nor_in_tmp(site: Site) -> None:
    """pyinfra's uploads lie in /tmp, mode 0644, until they are moved."""
    site.nap(seconds=2)
    site.machine.ssh("cat >/var/tmp/watcher.py", input=(PROJECT / HERE / "watcher.py").read_text())
    watch = subprocess.Popen(
        [*map(str, site.machine.ssh_argv()), "sudo python3 /var/tmp/watcher.py /var/tmp/nap.stop"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert watch.stdin is not None
    watch.stdin.write(SECRET)
    watch.stdin.close()
    watch.stdin = None
    run = site.run("nap", "-vv", "--diff")
    site.on("touch /var/tmp/nap.stop")
    out, _ = watch.communicate(timeout=30)
    assert run.returncode == 0, run.stderr
    report = json.loads(out)
    assert report["rounds"] > 10
    # The test's own program holds the secret to compare it.
    seen = [line for line in report["seen"] if not line.endswith("/var/tmp/nap.py")]
    assert "0600 /run/sparkwright/nap/secret" in seen
    assert {line.rsplit("/", 1)[0] for line in seen} == {"0600 /run/sparkwright/nap"}
    assert SECRET not in run.stdout + run.stderr
    # From standard input: sudo writes every command line into the journal.
    look = "sudo grep -rlF -f - /tmp /run/sparkwright /var/log /root; true"
    assert site.machine.ssh(look, input=f"{SECRET}\n").stdout == ""
    assert SECRET not in site.on("journalctl --no-pager -o export")


def test_an_api_key_is_0640_from_its_first_byte_and_in_no_output(site: Site) -> None:
    site.on("groupadd --system llm; install -d -m 0755 /etc/sparkwright")
    (site.place / "key.py").write_text(
        "from sparkwright.operations import ensure\nfrom sparkwright.system import Secret\n"
        "ensure(name='key', resources=[Secret('/etc/sparkwright/api-key','root','llm','0640')])\n"
    )
    words = ["inventory.py", str(site.place / "key.py"), "-y", "-vv", "--diff"]
    run = command("pyinfra", *words, "--limit", "spark-1", env=site.env)
    assert run.returncode == 0, run.stderr
    key = site.on("cat /etc/sparkwright/api-key")
    assert len(key) == 43
    assert key not in run.stdout + run.stderr
    assert site.on("stat -c '%a %U:%G' /etc/sparkwright/api-key") == "640 root:llm"
    assert site.on("ls -A /etc/sparkwright") == "api-key"


def test_an_unknown_host_key_is_refused_whatever_ssh_config_says(site: Site) -> None:
    strangers, config = site.place / "strangers", site.place / "config"
    strangers.touch()
    config.write_text("Host *\n  StrictHostKeyChecking no\n")
    text = site.fleet.read_text()
    known = next(line for line in text.splitlines() if "known_hosts:" in line)
    text = text.replace(known, f"    known_hosts: {strangers}\n    config: {config}")
    other = site.place / "other.yaml"
    other.write_text(text)
    env = {**site.env, "SPARKS_FILE": str(other)}
    run = command("pyinfra", *site.argv("journal"), env=env)
    assert run.returncode == 1
    assert "Success" not in run.stderr
    assert strangers.read_text() == ""


def test_ctrl_c_leaves_only_the_unit_and_the_next_run_joins_it(site: Site) -> None:
    """pyinfra leaves its remote commands running; a retry would start a second one."""
    site.nap(seconds=20)
    unit = "sparkwright-nap-0123456789ab.service"
    run = site.start("nap")
    until(lambda: site.there("/var/tmp/nap.starts"), "the work begins")
    first = site.on(f"systemctl show -p InvocationID --value {unit}")
    os.killpg(run.pid, signal.SIGINT)
    assert run.wait(timeout=8) == 130
    until(lambda: "pyinfra" not in site.on("ps -eo args | grep [s]shd: | grep notty; true")
          and site.on("pgrep -fc ^python3.-I; true") == "0", "questions end")  # fmt: skip
    assert site.on(f"systemctl is-active {unit}") == "active"
    assert site.on(f"systemctl show -p InvocationID --value {unit}") == first
    assert site.changed("nap") == 1
    assert site.on("cat /var/tmp/nap.starts") == "x"
    assert site.changed("nap") == 0
    assert site.on("systemctl list-units --all --plain --no-legend 'sparkwright-*'") == ""
