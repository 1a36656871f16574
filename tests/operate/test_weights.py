"""weights, summary, drift gauges on real machines, healthy and broken in ways that people meet."""

from __future__ import annotations

import json
import math
import shlex
import subprocess
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e import support
from tests.e2e.support import PROJECT
from tests.lab.lab import Lab, start_lab

pytestmark = pytest.mark.lab

GPT, LLAMA = "tiny-gpt-oss-llamacpp", "tiny-llama-llamacpp"
UNIT = f"llm-{GPT}.service"
SERVE: dict[str, list[object]] = {
    "spark-1": [GPT],
    "spark-2": [{"recipe": LLAMA, "api_key": "generate", "listen": "0.0.0.0"}],
}
ROOT = "/srv/sparkwright/weights"
SCHEMA = json.loads((PROJECT / "docs/schemas/weights.json").read_text())
UNITS = PROJECT / "docs/units"


class Site:
    """A converged lab that the tests share, in order; each leaves it as it was."""

    def __init__(self, lab: Lab, fleet: Path) -> None:
        self.lab, self.fleet = lab, fleet
        self.one, self.two = lab.machines
        self.first = support.sparkwright(fleet, "converge")

    def weights(self, *words: str) -> tuple[int, dict[str, list[dict[str, Any]]]]:
        """Exit status, and the snapshots of each machine."""
        done = support.sparkwright(self.fleet, "weights", "--json", *words)
        assert done.stdout, done.stderr
        found = json.loads(done.stdout)
        jsonschema.validate(found, SCHEMA)
        return done.returncode, {m["name"]: m["snapshots"] for m in found["machines"]}

    def fates(self, *words: str) -> tuple[int, dict[str, str]]:
        """Exit status of a prune, and what it says of each directory of the first machine."""
        code, found = self.weights("prune", *words)
        return code, {row["directory"]: row["prune"] for row in found["spark-1"]}

    def place(self, pattern: str) -> str:
        """The only path on the first machine that matches."""
        (found,) = self.one.ssh(f"sudo find {ROOT} -path '{pattern}'").stdout.split()
        return found


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with start_lab(machines=2) as lab:
        place = tmp_path_factory.mktemp("fleet")
        yield Site(lab, lab.write_fleet(place / "sparks.yaml", SERVE, support.settings()))


def lines_of(site: Site) -> list[str]:
    """The lines of the first converge that ask a server."""
    lines = site.first.stdout.splitlines()
    begin = lines.index("ask it:") + 1
    return sorted(line.strip() for line in takewhile(lambda x: x.startswith("  "), lines[begin:]))


def test_a_converge_ends_with_one_screen(site: Site) -> None:
    assert site.first.returncode == 0, site.first.stdout + site.first.stderr
    lines = site.first.stdout.splitlines()
    assert len(lines) <= 24
    assert f"started {UNIT}; llm-{GPT} at port 8080 " in lines[0]
    assert "how it runs: sparkwright status" in lines
    assert lines[-1].endswith("operation(s) changed something")


def test_the_lines_that_ask_can_be_pasted(site: Site) -> None:
    """One through ssh to loopback, one over the network with a key that no argument shows."""
    lines = lines_of(site)
    assert len(lines) == 2
    assert [line.split()[0] for line in lines] == ["curl", "ssh"]
    for line in lines:
        done = subprocess.run(["bash", "-c", line], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, check=False)  # fmt: skip
        assert done.returncode == 0, line + done.stderr
        assert "SPARK" in json.loads(done.stdout)["choices"][0]["message"]["content"], line
    key = site.two.ssh("sudo cat /etc/sparkwright/api-key").stdout.strip()
    assert key not in site.first.stdout + site.first.stderr


def test_a_second_converge_is_quiet(site: Site) -> None:
    done = support.sparkwright(site.fleet, "converge")
    assert (done.returncode, done.stdout) == (0, "0 operation(s) changed something\n")


def test_pyinfra_itself_ends_with_it_too(site: Site) -> None:
    site.one.ssh(f"sudo sh -c 'echo \"# x\" >>/etc/systemd/system/{UNIT}'")
    program = str(Path(support.PROGRAM).with_name("pyinfra"))
    done = subprocess.run(
        [program, "inventory.py", "deploy.py", "-y"], cwd=PROJECT, capture_output=True, text=True,
        env={"SPARKS_FILE": str(site.fleet), "PATH": "/usr/bin:/bin", "HOME": "/root",
             "PYINFRA_PROGRESS": "off"}, check=True,
    )  # fmt: skip
    said = done.stderr.splitlines()
    assert said[-1] == "how it runs: sparkwright status"
    assert any(line.startswith("spark-1: ") and "mended" in line for line in said)
    assert not any(line.startswith("spark-2: ") and "mended" in line for line in said)


# --- weights ---


def test_a_healthy_fleet(site: Site) -> None:
    code, found = site.weights()
    assert code == 0
    (one,) = found["spark-1"]
    assert (one["state"], one["wrong"]) == ("complete", [])
    claims = {(claim["by"], claim["name"].split()[0]) for claim in one["claims"]}
    assert {("recipe", GPT), ("unit", UNIT)} <= claims
    text = support.sparkwright(site.fleet, "weights").stdout.splitlines()
    assert text[0].split()[:3] == ["MACHINE", "WEIGHTS", "COMMIT"]
    assert text[1].startswith("spark-1  ")
    assert "\x1b" not in "".join(text)


def test_listing_and_proving_change_nothing(site: Site) -> None:
    before = support.processes([site.one, site.two])
    site.one.ssh("sudo touch /run/mark")
    for words in ((), ("verify",), ("verify", "--deep"), ("prune",)):
        assert site.weights(*words)[0] == 0
    files = "sudo find /etc /opt /srv /var/lib/sparkwright -xdev -newer /run/mark -type f"
    assert site.one.ssh(files).stdout == ""
    assert support.processes([site.one, site.two]) == before


def test_a_password_for_sudo_leaves_no_helper(site: Site, tmp_path: Path) -> None:
    """pyinfra puts a program that says the password to sudo into /tmp, without the password."""
    fleet = site.lab.write_fleet(tmp_path / "sparks.yaml", SERVE, support.settings(),
                                 user="sparkpw", sudo_password_env="LAB_SUDO")  # fmt: skip
    done = support.sparkwright(fleet, "status", env={"LAB_SUDO": "lab-password"})
    assert done.returncode == 0, done.stdout + done.stderr
    assert site.one.ssh("ls -A /tmp | grep pyinfra", check=False).stdout == ""


def test_a_byte_that_changed_is_found_by_deep_alone_and_only_its_file_is_fetched(
    site: Site,
) -> None:
    shard = site.place("*-00003-of-00004.gguf")
    flip = (
        f"f={shard}; sudo touch -r $f /run/time; printf X | "
        "sudo dd of=$f bs=1 seek=200 conv=notrunc status=none; sudo touch -r /run/time $f"
    )
    site.one.ssh(flip)
    assert site.weights("verify")[0] == 0
    code, found = site.weights("verify", "--deep")
    (row,) = found["spark-1"]
    assert (code, row["state"]) == (1, "damaged")
    assert row["wrong"] == [f"changed {shard.rsplit('/', 1)[1]}"]
    before = len(site.lab.upstream.access())
    done = support.sparkwright(site.fleet, "weights", "repair")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"changed {shard.rsplit('/', 1)[1]}" in done.stderr
    rows = site.lab.upstream.access()[before:]
    paths = [str(row["path"]) for row in rows if row["method"] == "GET"]
    fetched = {path.rsplit("/", 1)[1].split("?")[0] for path in paths if ".gguf" in path}
    assert fetched == {shard.rsplit("/", 1)[1]}
    assert site.weights("verify", "--deep")[0] == 0


def test_a_shard_that_is_gone_is_repaired_too(site: Site) -> None:
    shard = site.place("*-00002-of-00004.gguf")
    site.one.ssh(f"sudo rm {shard}")
    assert site.weights()[1]["spark-1"][0]["wrong"] == [f"missing {shard.rsplit('/', 1)[1]}"]
    code, found = site.weights("repair")
    assert (code, found["spark-1"][0]["state"]) == (0, "complete")


def plant(site: Site, name: str, days: int) -> str:
    """A finished snapshot of another model, as an earlier fleet left it, read so long ago."""
    own = site.place("*/tiny-gpt-oss-GGUF/*/MANIFEST.json").rsplit("/", 1)[0]
    place = f"{ROOT}/old/{name}/{name * 12}"
    site.one.ssh(
        f"sudo mkdir -p {place} && sudo cp -a {own}/. {place} && sudo rm {place}/.sparkwright-stat"
        f".json; sudo find {place} -exec touch -d '{days} days ago' {{}} +"
    )
    return place


def test_prune_shows_first_and_leaves_what_is_claimed(site: Site) -> None:
    old, new = plant(site, "a", 40), plant(site, "b", 3)
    code, fates = site.fates()
    assert (code, fates[old], fates[new]) == (1, "chosen", "chosen")
    assert sorted(fates.values()) == ["", "chosen", "chosen"]
    _, fates = site.fates("--unused-days", "30")
    assert (fates[old], fates[new]) == ("chosen", "")
    pinned = ("--data", 'weights_pinned=["old/b"]')
    done = support.sparkwright(site.fleet, "weights", "prune", *pinned)
    assert f"spark-1: {old}: would remove" in done.stdout
    assert new not in done.stdout
    assert "nothing was removed" in done.stdout
    assert site.one.ssh(f"ls -d {old} {new}").stdout.split() == [old, new]


def test_prune_removes_and_refuses_what_is_used(site: Site) -> None:
    """A process holds one, a unit of somebody else names the other, a link leads outside."""
    old, new = f"{ROOT}/old/a/{'a' * 12}", f"{ROOT}/old/b/{'b' * 12}"
    site.one.ssh("sudo mkdir -p /root/keep && sudo touch /root/keep/file && "
                 f"sudo ln -s /root/keep {old}/out && sudo ln -s /root/keep {ROOT}/linked && "
                 f"sudo systemd-run -q --unit=reader tail -f {new}/MANIFEST.json")  # fmt: skip
    code, fates = site.fates("--apply")
    assert (code, fates[old], fates[new]) == (0, "removed", "")
    assert site.one.ssh(f"sudo ls {old}", check=False).returncode != 0
    assert site.one.ssh("sudo ls /root/keep").stdout.split() == ["file"]
    site.one.ssh("sudo systemctl stop reader; sudo sh -c "
                 f"'echo \"# {new}\" >/etc/systemd/system/mine.service'")  # fmt: skip
    assert site.fates("--apply")[1][new] == ""
    site.one.ssh("sudo rm /etc/systemd/system/mine.service")
    fates = site.fates("--apply")[1]
    assert fates.pop(new) == "removed"
    assert list(fates.values()) == [""]
    site.one.ssh(f"sudo rm {ROOT}/linked")
    assert site.one.ssh("sudo ls /root/keep").stdout.split() == ["file"]
    assert site.weights()[0] == 0
    assert support.ask(site.one, 8080, "tiny-gpt-oss").strip() == "SPARK"


def test_a_machine_that_is_off_is_unknown(site: Site, tmp_path: Path) -> None:
    site.two.link_down()
    try:
        code, found = site.weights("--timeout", "3")
        assert (code, found["spark-2"]) == (2, [])
        assert found["spark-1"][0]["state"] == "complete"
        assert site.weights("prune", "--apply", "--timeout", "3")[0] == 2
        assert site.weights("repair", "--timeout", "3")[0] == 2
        # And to every other command that asks machines: never well, whatever the others are.
        for words in (("status",), ("verify",), ("doctor",), ("show", LLAMA), ("logs",),
                      ("report", "--output", str(tmp_path / "r.tar.gz"))):  # fmt: skip
            done = support.sparkwright(site.fleet, *words, "--timeout", "5")
            assert (words, done.returncode) == (words, 2)
            assert "spark-2" in done.stdout + done.stderr
        assert support.check(site.fleet)[0] == 2
    finally:
        site.two.link_up()


# --- verify in pyinfra, show, the clock's cap ---


def pyinfra(site: Site, deploy: str, *words: str) -> subprocess.CompletedProcess[str]:
    program = str(Path(support.PROGRAM).with_name("pyinfra"))
    env = {"SPARKS_FILE": str(site.fleet), "PATH": "/usr/bin:/bin", "HOME": "/root",
           "PYINFRA_PROGRESS": "off"}  # fmt: skip
    return subprocess.run([program, "inventory.py", deploy, "-y", "--json", *words], cwd=PROJECT,
                          env=env, capture_output=True, text=True, check=False)  # fmt: skip


def test_pyinfra_proves_what_runs(site: Site) -> None:
    before = support.processes([site.one, site.two])
    done = pyinfra(site, "verify.py")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["results"]
    assert (found["failed_hosts"], found["totals"]["success"]) == ([], 0)
    assert support.processes([site.one, site.two]) == before


def test_pyinfra_shows_a_machine_with_a_wrong_check_as_failed(site: Site) -> None:
    site.one.ssh(f"sudo systemctl stop {UNIT}")
    try:
        done = pyinfra(site, "verify.py")
    finally:
        site.one.ssh(f"sudo systemctl start {UNIT}")
    assert done.returncode == 1
    assert json.loads(done.stdout)["results"]["failed_hosts"] == ["spark-1"]
    assert "WRONG" in done.stderr
    assert "look closer: sparkwright logs" in done.stderr
    support.converge(site.fleet)


def test_the_command_that_is_shown_is_the_one_that_runs(site: Site) -> None:
    done = support.sparkwright(site.fleet, "show", GPT, "--print")
    assert (done.returncode, done.stderr) == (0, "# spark-1: as it is on the machine\n")
    words = shlex.split(done.stdout)
    pid = support.process(site.one, UNIT).pid
    running = site.one.ssh(f"sudo cat /proc/{pid}/cmdline").stdout.split("\0")[:-1]
    assert words[-len(running) :] == running
    told = json.loads(support.sparkwright(site.fleet, "show", GPT, "--json").stdout)
    schema = json.loads((PROJECT / "docs/schemas/show.json").read_text())
    jsonschema.validate(told, schema)
    file = site.one.ssh(f"cat /etc/systemd/system/{UNIT}").stdout
    assert told["units"][0]["text"] == file
    key = site.two.ssh("sudo cat /etc/sparkwright/api-key").stdout.strip()
    assert key not in support.sparkwright(site.fleet, "show", LLAMA).stdout
    wrong = support.sparkwright(site.fleet, "show", "tiny")
    assert (wrong.returncode, "no machine serves tiny" in wrong.stderr) == (2, True)


# Replaces the driver's program, which a machine without a GPU has not: it keeps the lock and the
# clock in files, and forgets both when it is told to.
FAKE_SMI = """#!/bin/sh
case "$1" in
-lgc) echo "${2#*,}" >/run/fake-clock; echo "GPU clocks set" ;;
-rgc) echo 2600 >/run/fake-clock ;;
--query-gpu=clocks*) cat /run/fake-clock 2>/dev/null || echo 2600 ;;
esac
"""


def test_a_cap_of_the_clock_is_kept_and_taken_away(site: Site) -> None:
    cap = ("--data", "gpu_clock_max_mhz=2150", "--limit", "spark-1")
    clock = "sparkwright-gpu-clock.service"
    site.one.ssh("sudo tee /usr/bin/nvidia-smi >/dev/null; sudo chmod 755 /usr/bin/nvidia-smi",
                 input=FAKE_SMI)  # fmt: skip
    code, report = support.check(site.fleet, *cap)
    assert code == 1
    assert any(clock in what for what in support.drift_of(report))
    support.converge(site.fleet, *cap)
    assert site.one.ssh("cat /run/fake-clock").stdout == "2150\n"
    assert site.one.ssh(f"systemctl is-enabled {clock}").stdout == "enabled\n"
    assert support.check(site.fleet, *cap)[0] == 0
    # A driver that was loaded again has forgotten it; so has a boot, after which the unit sets it.
    site.one.ssh("sudo rm /run/fake-clock")
    code, report = support.check(site.fleet, *cap)
    assert support.drift_of(report) == ["GPU clock: is 2600 MHz, above the cap of 2150"]
    site.one.power_off()
    site.one.boot()
    assert site.one.ssh("cat /run/fake-clock").stdout == "2150\n"
    support.converge(site.fleet, *cap)
    assert support.check(site.fleet, *cap)[0] == 0
    support.converge(site.fleet, "--limit", "spark-1")
    assert site.one.ssh("cat /run/fake-clock").stdout == "2600\n"
    assert site.one.ssh(f"ls /etc/systemd/system/{clock}", check=False).returncode != 0
    site.one.ssh("sudo rm /usr/bin/nvidia-smi /run/fake-clock")
    assert support.check(site.fleet)[0] == 0


# --- drift for Prometheus ---


def gauges(path: Path) -> dict[tuple[str, ...], float]:
    families = text_string_to_metric_families(path.read_text())
    return {(s.name, *(v for _, v in sorted(s.labels.items()))): s.value
            for family in families for s in family.samples}  # fmt: skip


def check(site: Site, path: Path) -> tuple[int, dict[tuple[str, ...], float]]:
    words = ("check", "--json", "--prometheus", str(path))
    done = support.sparkwright(site.fleet, *words)
    assert "Traceback" not in done.stderr
    return done.returncode, gauges(path)


def test_drift_is_counted_where_it_is(site: Site, tmp_path: Path) -> None:
    path = tmp_path / "s.prom"
    code, found = check(site, path)
    assert code == 0
    assert {value for key, value in found.items() if key[0] == "sparkwright_drift"} == {0.0}
    site.one.ssh(f"sudo sh -c 'echo \"# x\" >>/etc/systemd/system/{UNIT}'; "
                 "sudo sysctl -q vm.swappiness=33")  # fmt: skip
    code, found = check(site, path)
    assert code == 1
    assert found["sparkwright_drift", "spark-1", GPT] >= 1
    assert found["sparkwright_drift", "spark-1", ""] == 1
    assert found["sparkwright_drift", "spark-2", LLAMA] == 0
    site.two.link_down()
    try:
        code, found = check(site, path)
    finally:
        site.two.link_up()
    assert code == 2
    assert found["sparkwright_drift", "spark-1", ""] == 1
    assert math.isnan(found["sparkwright_drift", "spark-2", LLAMA])
    assert (found["sparkwright_asked", "spark-1"], found["sparkwright_asked", "spark-2"]) == (1, 0)
    support.converge(site.fleet)


def test_the_timer_is_what_systemd_takes(site: Site) -> None:
    program = "/root/sparkwright/.venv/bin/sparkwright"
    site.one.ssh(f"sudo install -D /bin/true {program}")
    for path in sorted(UNITS.iterdir()):
        place = f"/etc/systemd/user/{path.name}"
        site.one.ssh(f"sudo tee {place} >/dev/null", input=path.read_text())
    done = site.one.ssh(
        # As in a session, which sudo has not.
        "sudo env XDG_RUNTIME_DIR=/run systemd-analyze --user verify "
        "/etc/systemd/user/sparkwright-drift.timer /etc/systemd/user/sparkwright-drift.service",
        check=False,
    )  # fmt: skip
    site.one.ssh("sudo rm -r /etc/systemd/user/sparkwright-drift.* /root/sparkwright")
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
