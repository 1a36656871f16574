"""The main job on two real machines: from nothing, again, drift, and again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e import support
from tests.e2e.support import Process
from tests.lab.lab import Lab, start_lab

pytestmark = pytest.mark.lab

SERVE = {"spark-1": ["tiny-gpt-oss-llamacpp"], "spark-2": ["tiny-llama-llamacpp"]}
UNIT = "llm-tiny-gpt-oss-llamacpp.service"
TIKTOKEN = "/srv/sparkwright/tiktoken"
SHA1_NAME = "fb374d419588a4632f3f557e76b4b70aebbca790"


class Site:
    """The converged lab that the tests of this module share, in order."""

    def __init__(self, lab: Lab, fleet: Path) -> None:
        self.lab, self.fleet = lab, fleet
        self.one, self.two = lab.machines
        self.first = support.converge(fleet)

    def processes(self) -> dict[str, Process]:
        return support.processes(self.lab.machines)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with start_lab(machines=2) as lab:
        place = tmp_path_factory.mktemp("fleet")
        yield Site(lab, lab.write_fleet(place / "sparks.yaml", SERVE, support.settings()))


def in_sync(site: Site) -> None:
    code, report = support.check(site.fleet)
    assert (code, support.drift_of(report), report["problems"]) == (0, [], [])


def repaired(site: Site, wanted: str) -> list[str]:
    """Drift is named, one converge repairs it, and nothing is left; returns what was changed."""
    code, report = support.check(site.fleet)
    assert code == 1
    assert any(wanted in what for what in support.drift_of(report)), support.drift_of(report)
    summary = support.converge(site.fleet)
    assert not summary["failed"]
    in_sync(site)
    return [row["what"] for row in summary["changes"]]


def test_the_first_run_serves_both_models(site: Site) -> None:
    assert len(site.first["accepted"]) == 2
    assert support.ask(site.one, 8080, "tiny-gpt-oss").strip() == "SPARK"
    assert support.ask(site.two, 8081, "tiny-llama").strip() == "SPARK"


def test_the_second_run_changes_nothing(site: Site) -> None:
    before, seen = site.processes(), len(site.lab.upstream.access())
    summary = support.converge(site.fleet)
    assert summary["changed"] == 0, summary["changes"]
    assert site.processes() == before
    assert len(before) == 2
    assert support.served_bytes(site.lab, seen) == 0


def test_a_dry_run_on_a_converged_fleet_reports_nothing(site: Site) -> None:
    in_sync(site)


def test_a_unit_edited_by_hand_is_named_and_repaired(site: Site) -> None:
    before = site.processes()
    site.one.ssh(
        f"sudo sed -i 's/^Nice=.*//; s/RestartSec=.*/RestartSec=1/' /etc/systemd/system/{UNIT}"
    )
    changes = repaired(site, f"/etc/systemd/system/{UNIT}: content differs")
    assert not [what for what in changes if "tiny-llama" in what]
    after = site.processes()
    assert (
        after["spark-2/llm-tiny-llama-llamacpp.service"]
        == before["spark-2/llm-tiny-llama-llamacpp.service"]
    )


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (f"rm {TIKTOKEN}/{SHA1_NAME}", f"{TIKTOKEN}/{SHA1_NAME}: missing"),
        (f"truncate -s 14 {TIKTOKEN}/o200k_base.tiktoken", "o200k_base.tiktoken: sha256 is"),
        (f"chmod 666 {TIKTOKEN}/{SHA1_NAME}", "mode is 0666, not 0644"),
        (f"systemctl stop {UNIT}", f"{UNIT}: inactive, not active"),
        (f"systemctl --quiet disable {UNIT}", f"{UNIT}: disabled, not enabled"),
        ("sysctl -q -w vm.swappiness=60", "sysctl vm.swappiness: 60, not 10"),
        ("rm /etc/systemd/journald.conf.d/60-sparkwright.conf", "60-sparkwright.conf: missing"),
        ("rm /opt/sparkwright/llama.cpp/current", "llama.cpp/current: points to nothing"),
        (
            f"sh -c 'mkdir -p /etc/systemd/system/{UNIT}.d && printf \"[Service]\\nNice=3\\n\" "
            f">/etc/systemd/system/{UNIT}.d/mine.conf && systemctl daemon-reload'",
            f"mine.conf: a drop-in changes {UNIT}",
        ),
    ],
)  # fmt: skip
def test_drift_is_named_and_repaired(site: Site, damage: str, named: str) -> None:
    site.one.ssh(f"sudo {damage}")
    repaired(site, named)


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        ("truncate -s 100", "changed"),
        ("rm", "missing"),
        ("sh -c 'printf X | dd of=\"$0\" bs=1 seek=64 conv=notrunc status=none'", "changed"),
    ],
)
def test_a_damaged_shard_is_found_and_only_it_is_fetched_again(
    site: Site, damage: str, named: str
) -> None:
    find = "ls /srv/sparkwright/weights/*/*/*/*.gguf | tail -n 1"
    shard = site.one.ssh(find).stdout.strip()
    site.one.ssh(f"sudo {damage} {shard}")
    seen = len(site.lab.upstream.access())
    repaired(site, named)
    fetched = {
        str(row["path"]).rsplit("/", 1)[1].split("?")[0]
        for row in site.lab.upstream.access()[seen:]
        if "/resolve/" in str(row["path"]) and row["method"] == "GET"
    }
    assert fetched == {shard.rsplit("/", 1)[1]}


def test_a_recipe_no_longer_listed_is_removed_and_its_weights_stay(site: Site) -> None:
    other = site.lab.write_fleet(
        site.fleet.with_name("other.yaml"), {"spark-1": SERVE["spark-1"]}, support.settings()
    )
    summary = support.converge(other)
    assert any("no longer in the fleet" in row["what"] for row in summary["changes"])
    left = site.two.ssh("ls /etc/systemd/system/llm-* 2>/dev/null; true").stdout
    assert left == ""
    assert site.two.ssh("ls /srv/sparkwright/weights/*/*/*/*.gguf").stdout
    support.converge(site.fleet)
    in_sync(site)


def test_what_is_standby_now_is_stopped_and_started_by_hand_it_runs_on(site: Site) -> None:
    unit, other = "llm-tiny-llama-llamacpp.service", site.fleet.with_name("standby.yaml")
    entry = {"recipe": SERVE["spark-2"][0], "state": "standby"}
    site.lab.write_fleet(other, {**SERVE, "spark-2": [entry]}, support.settings())
    one = support.process(site.one, UNIT)
    summary = support.converge(other)
    assert f"{unit}: runs, and is standby now" in [row["what"] for row in summary["changes"]]
    words = f"systemctl is-active {unit}; systemctl is-enabled {unit}"
    assert site.two.ssh(words, check=False).stdout.split() == ["inactive", "disabled"]
    assert support.process(site.one, UNIT) == one
    site.two.ssh(f"sudo systemctl start {unit}")
    by_hand = support.process(site.two, unit)
    support.converge(other)  # asks it, as after every start
    assert support.converge(other)["changed"] == 0
    assert support.process(site.two, unit) == by_hand
    support.converge(site.fleet)
    assert support.process(site.two, unit) == by_hand
    in_sync(site)


def test_openai_harmony_loads_with_the_rendered_environment(site: Site) -> None:
    site.one.ssh(
        "python3 -m venv /tmp/harmony && /tmp/harmony/bin/pip -q install openai-harmony==0.0.8"
    )
    pid = support.process(site.one, UNIT).pid
    environ = site.one.ssh(f"sudo cat /proc/{pid}/environ").stdout.split("\0")
    names = [entry for entry in environ if entry.startswith("TIKTOKEN_")]
    assert len(names) == 3
    load = "from openai_harmony import load_harmony_encoding as l; print(l('HarmonyGptOss').name)"
    words = " ".join(f"'{name}'" for name in names)
    out = site.one.ssh(
        f'sudo unshare --net runuser -u llm -- env -i {words} /tmp/harmony/bin/python -c "{load}"'
    )
    assert "HarmonyGptOss" in out.stdout


def test_a_machine_that_is_off_is_an_error_and_it_comes_back_serving(site: Site) -> None:
    site.two.power_off()
    code, report = support.check(site.fleet)
    assert code == 2
    assert "spark-2" in report["log"]
    site.two.boot()
    site.two.ssh("systemctl is-system-running --wait; true")
    assert support.ask(site.two, 8081, "tiny-llama").strip() == "SPARK"
    summary = support.converge(site.fleet)
    changed = [row["what"] for row in summary["changes"]]
    assert changed == ["llm-tiny-llama-llamacpp: has not answered its question since this start"]
    in_sync(site)
