"""status, logs and report on real machines: healthy, and broken in the ways that people meet."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.e2e import support
from tests.e2e.support import PROGRAM, PROJECT
from tests.lab.lab import Lab, start_lab

pytestmark = pytest.mark.lab

GPT, LLAMA = "tiny-gpt-oss-llamacpp", "tiny-llama-llamacpp"
UNIT = f"llm-{GPT}.service"
SERVE: dict[str, list[object]] = {
    "spark-1": [GPT, {"recipe": LLAMA, "state": "standby"}],
    "spark-2": [{"recipe": LLAMA, "api_key": "generate"}],
}


def schema(name: str) -> Any:
    """A schema of the project."""
    return json.loads((PROJECT / f"docs/schemas/{name}.json").read_text())


class Site:
    """A converged lab that the tests share, in order; each leaves it as it was."""

    def __init__(self, lab: Lab, fleet: Path) -> None:
        self.fleet = fleet
        self.one, self.two, self.three = lab.machines
        support.converge(fleet)

    def status(self, *words: str) -> tuple[int, dict[str, Any]]:
        """Exit status and object; it is always as the schema says."""
        done = support.sparkwright(self.fleet, "status", "--json", *words)
        assert done.stdout, done.stderr
        assert "Traceback" not in done.stderr
        found = json.loads(done.stdout)
        jsonschema.validate(found, schema("status"))
        return done.returncode, found

    def verify(self, *words: str) -> tuple[int, dict[tuple[str, str], dict[str, Any]]]:
        """Exit status, and the checks by recipe and name."""
        done = support.sparkwright(self.fleet, "verify", "--json", *words)
        assert done.stdout, done.stderr
        found = json.loads(done.stdout)
        jsonschema.validate(found, schema("verify"))
        return done.returncode, {(c["recipe"], c["name"]): c for c in found["checks"]}

    def doctor(self, *words: str) -> list[dict[str, Any]]:
        """The causes that are found."""
        done = support.sparkwright(self.fleet, "doctor", "--json", *words)
        assert done.stdout, done.stderr
        found = json.loads(done.stdout)
        jsonschema.validate(found, schema("doctor"))
        assert done.returncode == (1 if found["findings"] else 0)
        return list(found["findings"])

    def row(self, recipe: str = GPT, *words: str) -> tuple[int, dict[str, Any]]:
        """Exit status, and the first row of a recipe."""
        code, found = self.status(*words)
        rows = [row for machine in found["machines"] for row in machine["recipes"]]
        return code, next(row for row in rows if row["recipe"] == recipe)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with start_lab(machines=3) as lab:
        place = tmp_path_factory.mktemp("fleet")
        yield Site(lab, lab.write_fleet(place / "sparks.yaml", SERVE, support.settings()))


def test_a_healthy_fleet(site: Site) -> None:
    code, found = site.status()
    assert (code, found["state"]) == (0, "ok")
    assert [m["state"] for m in found["machines"]] == ["ok", "ok", "ok"]
    first, nap = found["machines"][0]["recipes"]
    assert (first["state"], nap["state"], first["drift"], first["accepted"]) == (
        "running", "standby", [], True,
    )  # fmt: skip
    assert first["uptime_s"] > 0
    assert first["used_gib"] > 0
    assert first["tok_s"] == 0
    # Behind an API key the counters are there too.
    assert found["machines"][1]["recipes"][0]["tok_s"] == 0
    assert found["machines"][2]["recipes"] == []
    assert any(row["unit"] == UNIT for row in found["machines"][0]["holders"])


def test_the_table_has_no_colour_in_a_pipe(site: Site) -> None:
    done = support.sparkwright(site.fleet, "status")
    lines = done.stdout.splitlines()
    assert done.returncode == 0
    assert "\x1b" not in done.stdout
    assert lines[0].split()[:3] == ["MACHINE", "RECIPE", "STATE"]
    assert [line.split()[0] for line in lines[1:]] == ["spark-1", "spark-1", "spark-2", "spark-3"]


def test_status_changes_nothing(site: Site) -> None:
    before = support.processes([site.one, site.two])
    files = "sudo find /etc /opt /srv /var/lib/sparkwright -xdev -newer /run/mark -type f"
    site.one.ssh("sudo touch /run/mark")
    site.status()
    assert site.one.ssh(files).stdout == ""
    assert support.processes([site.one, site.two]) == before


def test_everything_is_proved_again(site: Site, tmp_path: Path) -> None:
    before = support.processes([site.one, site.two])
    page = tmp_path / "page.html"
    code, found = site.verify("--deep", "--html", str(page))
    assert code == 0, [check for check in found.values() if not check["ok"]]
    assert "SPARK" in found[GPT, "question"]["seen"]
    assert "every byte hashed" in found[GPT, "weights"]["seen"]
    assert found[LLAMA, "same build"]["ok"]
    assert support.processes([site.one, site.two]) == before
    text = page.read_text()
    assert "0 wrong" in text
    assert "src=" not in text
    assert "href=" not in text


def test_watching_counts_tokens(site: Site) -> None:
    words = [PROGRAM, "status", "--json", "--watch", "1"]
    env = {**os.environ, "SPARKS_FILE": str(site.fleet)}
    with subprocess.Popen(
        words, cwd=PROJECT, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as watching:
        assert watching.stdout
        rates: list[float] = []
        while len(rates) < 20 and not any(rates):
            look = json.loads(watching.stdout.readline())
            rates.append(look["machines"][0]["recipes"][0]["tok_s"])
            support.ask(site.one, 8080, "tiny-gpt-oss")
        watching.send_signal(signal.SIGINT)
        assert watching.wait(30) == 0
        assert "Traceback" not in (watching.stderr.read() if watching.stderr else "")
    assert any(rates), rates


def test_a_unit_that_is_down(site: Site) -> None:
    site.one.ssh(f"sudo systemctl stop {UNIT}")
    code, row = site.row()
    assert (code, row["state"], row["good"]) == (1, "stopped", False)
    assert any("not active" in what for what in row["drift"])
    site.one.ssh(f"sudo systemctl start {UNIT}")
    code, row = site.row()
    assert (code, row["state"], row["drift"], row["accepted"]) == (1, "running", [], False)
    support.converge(site.fleet)
    assert site.row()[0] == 0


def test_a_unit_that_was_edited(site: Site) -> None:
    site.one.ssh(f"sudo sed -i 's/^Nice=.*/Nice=1/' /etc/systemd/system/{UNIT}; sudo sh -c "
                 f"'echo \"# x\" >>/etc/systemd/system/{UNIT}'")  # fmt: skip
    code, row = site.row()
    assert (code, row["state"]) == (1, "running")
    assert any(UNIT in what for what in row["drift"])
    done = support.sparkwright(site.fleet, "status")
    assert "drift: " in done.stdout
    assert "`sparkwright converge` mends it" in done.stdout
    support.converge(site.fleet)


def test_a_process_that_does_not_answer(site: Site) -> None:
    pid = support.process(site.one, UNIT).pid
    site.one.ssh(f"sudo kill -STOP {pid}")
    try:
        code, row = site.row()
        assert (code, row["state"]) == (1, "silent")
    finally:
        site.one.ssh(f"sudo kill -CONT {pid}")


def test_a_shard_that_is_corrupt(site: Site) -> None:
    """It runs on until a restart; then it fails, and the log names the reason."""
    find = "sudo find /srv/sparkwright/weights -name '*-00002-of-00004.gguf'"
    shard = site.one.ssh(find).stdout.strip()
    site.one.ssh(f"sudo truncate -s 100 {shard}; sudo systemctl restart {UNIT}", check=False)
    code, row = site.row()
    said = support.sparkwright(site.fleet, "logs", GPT, "--causes", "-n", "400").stdout
    told, checks = site.verify()
    cause = site.doctor("weights")
    support.converge(site.fleet)
    assert (code, told, checks[GPT, "state"]["ok"]) == (1, 1, False)
    assert row["state"] in ("failing", "failed", "loading")
    assert f"spark-1 {GPT}: " in said
    assert "gguf_init" in said
    assert [f["cause"] for f in cause] == ["a file of the weights is damaged"]
    assert site.row()[0] == 0
    assert site.doctor("weights") == []


def test_a_shard_that_was_changed_while_it_runs(site: Site) -> None:
    """The process answers on; only the weights tell."""
    find = "sudo find /srv/sparkwright/weights -name '*-00003-of-00004.gguf'"
    shard = site.one.ssh(find).stdout.strip()
    site.one.ssh(f"sudo cp -p {shard} /root/shard; sudo sh -c 'echo x >>{shard}'")
    code, found = site.verify()
    site.one.ssh(f"sudo cp -p /root/shard {shard}")
    support.converge(site.fleet)
    assert code == 1
    assert "changed tiny-gpt-oss-00003" in found[GPT, "weights"]["seen"]
    assert found[GPT, "weights"]["look"].startswith("sparkwright check")
    assert found[GPT, "question"]["ok"]


def test_a_port_that_is_taken(site: Site) -> None:
    site.one.ssh(f"sudo systemctl stop {UNIT}; sudo systemd-run -q --unit=thief "
                 "python3 -m http.server 8080 --bind 127.0.0.1; sleep 1; "
                 f"sudo systemctl start {UNIT}", check=False)  # fmt: skip
    code, row = site.row()
    cause = site.doctor("port")
    site.one.ssh(f"sudo systemctl stop thief; sudo systemctl restart {UNIT}")
    support.converge(site.fleet)
    assert code == 1
    assert row["state"] in ("failing", "failed", "loading")
    assert [(f["recipe"], f["cause"]) for f in cause] == [(GPT, "another process holds the port")]


def test_a_gpu_that_is_expected_and_absent(site: Site) -> None:
    assert site.doctor("gpu") == []
    found = site.doctor("gpu", "--data", "gpu_required=True", "--limit", "spark-3")
    assert [(f["machine"], f["symptom"]) for f in found] == [("spark-3", "gpu")]


def test_a_machine_that_is_off(site: Site) -> None:
    site.two.link_down()
    try:
        code, found = site.status("--timeout", "3")
        assert code == 2
        assert [m["state"] for m in found["machines"]] == ["ok", "unknown", "ok"]
        gone = found["machines"][1]
        assert (gone["reached"], gone["recipes"][0]["state"]) == (False, "unknown")
        assert gone["why"]
        done = support.sparkwright(site.fleet, "logs", "--timeout", "3")
        assert (done.returncode, "spark-2: " in done.stderr) == (2, True)
        assert GPT in done.stdout
        code, checks = site.verify("--timeout", "20")
        assert (code, checks["", "reached"]["ok"], checks[GPT, "question"]["ok"]) == (2, None, True)
    finally:
        site.two.link_up()


def test_every_machine_is_off(site: Site) -> None:
    for machine in (site.one, site.two, site.three):
        machine.link_down()
    try:
        code, found = site.status("--timeout", "2")
        assert (code, found["state"]) == (2, "unknown")
    finally:
        for machine in (site.one, site.two, site.three):
            machine.link_up()


def test_logs(site: Site) -> None:
    done = support.sparkwright(site.fleet, "logs", "-n", "3", "--limit", "spark-1", GPT)
    lines = done.stdout.splitlines()
    assert (done.returncode, len(lines)) == (0, 3)
    assert all(line.startswith(f"spark-1 {GPT}: ") for line in lines)
    told = support.sparkwright(site.fleet, "logs", "-n", "1", "--json", LLAMA, "--limit", "spark-2")
    jsonschema.validate(json.loads(told.stdout), schema("logs"))
    assert json.loads(told.stdout)["machine"] == "spark-2"
    wrong = support.sparkwright(site.fleet, "logs", "tiny")
    assert (wrong.returncode, "no machine serves tiny" in wrong.stderr) == (2, True)
    assert support.sparkwright(site.fleet, "logs", "--boot", "-1").returncode == 1


def test_following_shows_what_is_new(site: Site) -> None:
    words = [PROGRAM, "logs", "-f", "-n", "1", GPT, "--limit", "spark-1"]
    env = {**os.environ, "SPARKS_FILE": str(site.fleet)}
    with subprocess.Popen(
        words, cwd=PROJECT, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as following:
        assert following.stdout
        first = following.stdout.readline()
        support.ask(site.one, 8080, "tiny-gpt-oss")
        second = following.stdout.readline()
        following.send_signal(signal.SIGINT)
        try:
            assert following.wait(30) == 0
        finally:
            following.kill()  # the end of `with` waits for it without a limit
    assert first.startswith(f"spark-1 {GPT}: ")
    assert second != first


def test_a_report_holds_no_secret(site: Site, tmp_path: Path) -> None:
    """Secrets are planted where people have them: in units, files, the fleet and the journal."""
    key = site.two.ssh("sudo cat /etc/sparkwright/api-key").stdout.strip()
    serial = site.two.ssh("cat /etc/machine-id").stdout.strip()
    mac = site.two.ssh("cat /sys/class/net/eth0/address").stdout.strip()
    unit = f"/etc/systemd/system/llm-{LLAMA}.service"
    planted = {
        "hf_PlantedPlantedPlanted": "Environment=HF_TOKEN=hf_PlantedPlantedPlanted",
        "Planted-Password-7": "# password: Planted-Password-7",
        key: f"# the key is {key}",
        serial: f"# of {serial}",
        mac: f"# {mac}",
        site.one.address: f"# beside {site.one.address}",
        site.two.address: f"# at http://joe:planted@{site.two.address}:8081",
        "joe:planted": "",
    }
    assert all(len(secret) > 6 for secret in planted)
    site.two.ssh(f"sudo cp {unit} /root/unit; sudo tee -a {unit} >/dev/null",
                 input="\n".join(planted.values()) + "\n")  # fmt: skip
    fleet = site.fleet.with_name("planted.yaml")
    fleet.write_text(f"{site.fleet.read_text()}# token: planted-in-the-fleet\n")
    path = tmp_path / "report.tar.gz"
    env = {"SPARKWRIGHT_TEST_TOKEN": "tiny scripted llama"}  # stands in every unit's description
    try:
        done = support.sparkwright(fleet, "report", "--output", str(path), env=env)
    finally:
        site.two.ssh(f"sudo cp /root/unit {unit}")
    assert done.returncode == 0, done.stderr
    found = texts(path)
    for secret in (*planted, "planted-in-the-fleet", "tiny scripted llama"):
        assert [name for name, text in found.items() if secret in text] == [], secret
    name = f"sparkwright-report/spark-2/llm-{LLAMA}.service.txt"
    assert "HF_TOKEN=<secret>" in found[name]
    assert "ExecStart=" in found[name]
    assert "model loaded" in found[f"sparkwright-report/spark-2/llm-{LLAMA}.journal.txt"]
    assert "address: " in found["sparkwright-report/README.txt"]


def texts(path: Path) -> dict[str, str]:
    """Every text of a tarball."""
    with tarfile.open(path) as tar:
        files = {member.name: tar.extractfile(member) for member in tar.getmembers()}
        return {name: file.read().decode() for name, file in files.items() if file}


def test_a_report_of_a_fleet_with_a_machine_off(site: Site, tmp_path: Path) -> None:
    site.two.link_down()
    try:
        path = tmp_path / "report.tar.gz"
        words = ("report", "--output", str(path), "--timeout", "3")
        done = support.sparkwright(site.fleet, *words)
    finally:
        site.two.link_up()
    assert (done.returncode, "spark-2: " in done.stdout) == (2, True)
    found = texts(path)
    assert found["sparkwright-report/spark-2/unreachable.txt"]
    assert "sparkwright-report/spark-1/kernel.txt" in found
