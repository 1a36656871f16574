"""What every command says of a fleet that is broken: one lab, one fault after the other.

spark-1 is healthy but for the fault; spark-2 serves a model that answers wrongly. Rows that are
elsewhere: status, verify, logs, doctor of test_fleet.py, bench of test_bench.py, causes.py.
"""

from __future__ import annotations

import json
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.e2e import support
from tests.e2e.support import PROJECT
from tests.lab.lab import Lab, start_lab
from tests.lab.machine import Machine

from .test_bench import SMALL

pytestmark = pytest.mark.lab

GPT, MUTE = "tiny-gpt-oss-llamacpp", "mute"
UNIT = f"llm-{GPT}.service"
FILE, DROPIN = f"/etc/systemd/system/{UNIT}", f"/run/systemd/system/{UNIT}.d/fault.conf"
CACHE = f"/srv/sparkwright/cache/llm-{GPT}"
WEIGHTS = "/srv/sparkwright/weights"
ONE, TWO = ("--limit", "spark-1"), ("--limit", "spark-2")
DOWN = ("failing", "failed", "loading")


class Site:
    """A lab that was converged once; each fault is mended by its test."""

    def __init__(self, lab: Lab, fleet: Path) -> None:
        self.lab, self.fleet = lab, fleet
        self.one, self.two = lab.machines
        done = support.sparkwright(fleet, "converge", "--json")
        # It fails, as it must: the second machine's model does not answer.
        assert done.returncode == 2, done.stdout[-3000:] + done.stderr[-3000:]
        assert support.ask(self.one, 8080, "tiny-gpt-oss").strip() == "SPARK"

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A command; whatever is broken, it explains itself without a traceback."""
        done = support.sparkwright(self.fleet, *words)
        assert "Traceback" not in done.stdout + done.stderr
        return done

    def object(self, name: str, *words: str) -> tuple[int, dict[str, Any]]:
        """Exit status and object of a command, as its schema says."""
        done = self.run(name, "--json", *words)
        assert done.stdout, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        schema = json.loads((PROJECT / f"docs/schemas/{name}.json").read_text())
        jsonschema.validate(found, schema)
        return done.returncode, found

    def row(self, *words: str) -> tuple[int, dict[str, Any]]:
        """Exit status of `status`, and its only row."""
        code, found = self.object("status", *words)
        (row,) = found["machines"][0]["recipes"]
        return code, row

    def checks(self, *words: str) -> tuple[int, dict[str, dict[str, Any]]]:
        """Exit status of `verify`, and its checks of one machine's recipe by name."""
        code, found = self.object("verify", *words)
        return code, {check["name"]: check for check in found["checks"] if check["recipe"]}

    def report(self, place: Path, *words: str) -> dict[str, str]:
        """Every text of a report, which is made whatever is broken."""
        path = place / "report.tar.gz"
        done = self.run("report", "--output", str(path), *words)
        assert done.returncode == 0, done.stdout + done.stderr
        with tarfile.open(path) as tar:
            files = {m.name.partition("/")[2]: tar.extractfile(m) for m in tar.getmembers()}
            return {name: file.read().decode() for name, file in files.items() if file}

    def no_bench(self, state: str = "") -> None:
        """Bench refuses what does not run, and says how it is."""
        done = self.run("bench", GPT, *ONE, *SMALL)
        assert done.returncode == 2, done.stdout
        words = [f"spark-1: {GPT} is {word}" for word in ((state,) if state else DOWN)]
        assert any(word in done.stderr for word in words), done.stderr
        assert "see `sparkwright status`" in done.stderr

    def root(self, command: str) -> str:
        """A shell command of root on the first machine."""
        return self.one.ssh(f"sudo sh -c '{command}'").stdout

    def well(self) -> None:
        """Start the unit without faults."""
        self.root(f"rm -f {DROPIN}; systemctl daemon-reload; systemctl reset-failed {UNIT}; "
                  f"systemctl restart {UNIT}")  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with start_lab(machines=2) as lab:
        path = tmp_path_factory.mktemp("broken") / "sparks.yaml"
        fleet = lab.write_fleet(path, {"spark-1": [GPT], "spark-2": [MUTE]}, support.settings())
        data = yaml.safe_load(fleet.read_text())
        data["recipes"].insert(0, str(PROJECT / "tests/operate/recipes"))
        fleet.write_text(yaml.safe_dump(data, sort_keys=False))
        yield Site(lab, fleet)


def processes(machine: Machine) -> dict[str, support.Process]:
    return support.processes([machine])


# --- the journal has dropped the start, as it does when it is full ---


def test_a_journal_without_the_start(site: Site) -> None:
    """What was proved at this start still counts; of another start nobody knows."""
    drop = "journalctl --rotate; sleep 1; journalctl -q --vacuum-time=1s"
    assert site.checks(*ONE)[0] == 0
    site.root(drop)
    code, checks = site.checks(*ONE)
    assert (code, checks["log"]["ok"]) == (0, True)
    assert "when this start was accepted" in checks["log"]["seen"]
    site.root(f"systemctl restart {UNIT}; {drop}")
    code, checks = site.checks(*ONE)
    assert (code, checks["log"]["ok"], checks["question"]["ok"]) == (2, None, True)
    assert "the journal has dropped this start" in checks["log"]["seen"]
    site.well()
    code, checks = site.checks(*ONE)
    assert (code, checks["log"]["ok"]) == (0, True)


# --- a wrong answer ---


def test_a_wrong_answer(site: Site, tmp_path: Path) -> None:
    """It runs as wanted and answers its health; only its question tells."""
    before = processes(site.two)
    code, row = site.row(*TWO)
    assert (code, row["state"], row["drift"]) == (1, "running", [])
    assert (row["accepted"], row["good"]) == (False, False)
    assert "spark-2" in site.run("status", *TWO).stdout
    code, checks = site.checks(*TWO)
    assert (code, checks["question"]["ok"], checks["state"]["ok"]) == (1, False, True)
    assert "content is None" in checks["question"]["seen"]
    assert checks["question"]["look"].startswith("sparkwright ")
    found = site.report(tmp_path, *TWO)
    assert "ActiveState=active" in found[f"spark-2/llm-{MUTE}.show.txt"]
    assert processes(site.two) == before


def test_bench_of_a_wrong_answer(site: Site) -> None:
    """Its tokens can be measured; that nobody knows whether they are any good is said."""
    done = site.run("bench", MUTE, *TWO, *SMALL, "--gate", "0", "--json", "--results",
                    str(site.fleet.with_name("runs.jsonl")))  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert any("has not answered its question" in note for note in found["notes"])
    assert "`sparkwright verify --limit spark-2`" in " ".join(found["notes"])


# --- the unit is down ---


def test_a_unit_that_is_down(site: Site, tmp_path: Path) -> None:
    site.root(f"systemctl stop {UNIT}")
    said = site.run("logs", GPT, *ONE, "-n", "5")
    found = site.report(tmp_path, *ONE)
    code, causes = site.object("doctor", *ONE)
    site.no_bench("stopped")
    site.root(f"systemctl start {UNIT}")
    assert said.returncode == 0
    assert f"spark-1 {GPT}: " in said.stdout
    assert "Stopped" in said.stdout
    assert "ActiveState=inactive" in found[f"spark-1/llm-{GPT}.show.txt"]
    assert "model loaded" in found[f"spark-1/llm-{GPT}.journal.txt"]
    assert (code, [one["cause"] for one in causes["findings"]]) == (1, ["somebody stopped it"])


# --- another digest ---


def test_a_digest_that_drifted(site: Site) -> None:
    """The file is right again, and what runs was started with another one."""
    change = "s/SPARKWRIGHT_DIGEST=[0-9a-f]*/SPARKWRIGHT_DIGEST=000000000000/"
    site.root(
        f"cp -p {FILE} /run/unit; sed -i {change} {FILE}; systemctl daemon-reload; "
        f"systemctl restart {UNIT}; cp -p /run/unit {FILE}; systemctl daemon-reload"
    )
    try:
        code, checks = site.checks(*ONE)
        status, row = site.row(*ONE)
    finally:
        site.well()
    assert (code, checks["as wanted"]["ok"], checks["question"]["ok"]) == (1, False, True)
    assert "runs 000000000000" in checks["as wanted"]["seen"]
    assert checks["as wanted"]["look"].startswith("sparkwright check")
    assert (status, row["state"], row["digest"]) == (1, "running", "000000000000")
    assert site.checks(*ONE)[1]["as wanted"]["ok"]


# --- the port is a stranger's ---


@contextmanager
def stranger(site: Site) -> Iterator[None]:
    """Another program on the port, which answers the question for its health as ours does."""
    site.root(f"systemctl stop {UNIT}; mkdir -p /run/stranger; echo ok >/run/stranger/health; "
              "systemd-run -q --unit=stranger -p WorkingDirectory=/run/stranger "
              "python3 -m http.server 8080 --bind 127.0.0.1; "
              "until ss -Hltn | grep -q :8080; do sleep 0.1; done; "
              f"systemctl reset-failed {UNIT}; systemctl start --no-block {UNIT}; "
              f"until journalctl -u {UNIT} -n 40 | grep -q bind; do sleep 0.1; done")  # fmt: skip
    try:
        yield
    finally:
        site.root("systemctl stop stranger")
        site.well()


def test_a_port_that_a_stranger_took(site: Site, tmp_path: Path) -> None:
    with stranger(site):
        code, checks = site.checks(*ONE)
        site.no_bench()
        said = site.run("logs", GPT, *ONE, "--causes", "-n", "200")
        found = site.report(tmp_path, *ONE)
    assert (code, checks["state"]["ok"]) == (1, False)
    assert "question" not in checks or not checks["question"]["ok"]
    assert f"spark-1 {GPT}: another process holds the port: " in said.stdout
    ports = found["spark-1/ports.txt"].splitlines()
    assert any(":8080 " in line and "python3" in line for line in ports)


# --- the disk is full ---


@contextmanager
def full(site: Site) -> Iterator[None]:
    """Two real file systems without a byte left: the unit's cache, and /tmp."""
    start = f"head -c 200000 /dev/zero >{CACHE}/fill"
    site.root(
        f"mount -t tmpfs -o size=64k,mode=1777 full {CACHE}; "
        "mount -t tmpfs -o size=64k,mode=1777 full /tmp; "
        f"for place in {CACHE} /tmp; do head -c 100000 /dev/zero >$place/all; done; "
        f'mkdir -p $(dirname {DROPIN}); printf "[Service]\\nExecStartPre=/bin/sh -c '
        f'\\"{start}\\"\\n" >{DROPIN}; systemctl daemon-reload; '
        f"systemctl reset-failed {UNIT}; systemctl restart --no-block {UNIT}; "
        f'until journalctl -u {UNIT} -n 40 | grep -q "No space"; do sleep 0.1; done'
    )
    try:
        yield
    finally:
        site.root(f"umount -l {CACHE}; umount -l /tmp")
        site.well()


def test_a_disk_that_is_full(site: Site, tmp_path: Path) -> None:
    with full(site):
        code, row = site.row(*ONE)
        verified, checks = site.checks(*ONE)
        site.no_bench()
        said = site.run("logs", GPT, *ONE, "--causes", "-n", "200")
        found = site.report(tmp_path, *ONE)
    assert (code, row["good"]) == (1, False)
    assert row["state"] in DOWN
    assert (verified, checks["state"]["ok"]) == (1, False)
    assert f"spark-1 {GPT}: the disk is full: head: " in said.stdout
    assert "No space left on device" in found[f"spark-1/llm-{GPT}.journal.txt"]
    assert "ExecStart=" in found[f"spark-1/llm-{GPT}.service.txt"]


# --- fit: it reads the model's files, and asks no machine ---


def test_fit_asks_no_machine(site: Site, tmp_path: Path) -> None:
    place = site.root(f"find {WEIGHTS} -name *-00001-of-00004.gguf").strip().rsplit("/", 1)[0]
    folder = tmp_path / "model"
    folder.mkdir()
    for path in (site.one.root / place.lstrip("/")).glob("*.gguf"):
        (folder / path.name).write_bytes(path.read_bytes())
    words = ("fit", GPT, "--dir", str(folder), "--json")
    healthy = site.run(*words)
    assert healthy.returncode == 0, healthy.stderr
    for machine in (site.one, site.two):
        machine.link_down()
    try:
        assert site.run("status", "--timeout", "2").returncode == 2
        found = site.run(*words)
    finally:
        for machine in (site.one, site.two):
            machine.link_up()
            machine.wait_ready()
    assert (found.returncode, found.stdout) == (0, healthy.stdout)
    shard = next(folder.glob("*-00002-of-00004.gguf"))
    shard.write_bytes(shard.read_bytes()[:5000])
    found = site.run(*words)
    assert (found.returncode, found.stdout) == (2, "")
    assert f"{shard}: is shorter than its own header says; fetch it again" in found.stderr
    shard.unlink()
    found = site.run(*words)
    assert (found.returncode, f"{shard}: is missing" in found.stderr) == (2, True)


# --- a shard is corrupt; last: it leaves a file system on the directory of weights ---


def test_a_corrupt_shard_and_no_space_to_repair_it(site: Site, tmp_path: Path) -> None:
    """What the report says; then a repair that finds no space, and one that does."""
    find = f"find {WEIGHTS} -name *-00002-of-00004.gguf"
    shard = site.root(find).strip()
    place = shard.rsplit("/", 1)[0]
    site.root(
        f"truncate -s 100 {shard}; systemctl restart --no-block {UNIT}; "
        f"until journalctl -u {UNIT} -n 40 | grep -q gguf_init; do sleep 0.1; done"
    )
    found = site.report(tmp_path, *ONE)
    assert "gguf_init" in found[f"spark-1/llm-{GPT}.journal.txt"]
    site.root(f"systemctl stop {UNIT}; cp -a {place} /run/copy; "
              f"mount -t tmpfs -o size=1000k,mode=755 small {place}; "
              f"cp -a /run/copy/. {place}/; rm -r /run/copy")  # fmt: skip
    others = site.root(f"sha256sum {place}/*-0000[134]-of-00004.gguf")
    done = site.run("weights", "repair", *ONE)
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"{place}: " in done.stderr
    assert "bytes are missing" in done.stderr
    assert "are free on its file system; free " in done.stderr
    assert site.root(f"sha256sum {place}/*-0000[134]-of-00004.gguf") == others
    site.root(f"mount -o remount,size=8m {place}")
    before = len(site.lab.upstream.access())
    assert site.run("weights", "repair", *ONE).returncode == 0
    rows = site.lab.upstream.access()[before:]
    paths = [str(row["path"]) for row in rows if row["method"] == "GET"]
    fetched = {path.rsplit("/", 1)[1].split("?")[0] for path in paths if ".gguf" in path}
    assert fetched == {shard.rsplit("/", 1)[1]}
    site.well()
    assert support.ask(site.one, 8080, "tiny-gpt-oss").strip() == "SPARK"
