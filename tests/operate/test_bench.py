"""bench on real machines with a real llama-server: through SSH, from another machine, refusals."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.e2e import support
from tests.e2e.support import PROJECT
from tests.lab.lab import Lab, start_lab

pytestmark = pytest.mark.lab

LLAMA = "tiny-llama-llamacpp"
UNIT = f"llm-{LLAMA}.service"
# spark-1 on loopback without a key; spark-2 on its network with one.
SERVE: dict[str, list[object]] = {
    "spark-1": [LLAMA],
    "spark-2": [{"recipe": LLAMA, "api_key": "generate", "listen": "0.0.0.0"}],
}
SMALL = ["--depths", "0,128", "--pp", "16", "--tg", "8", "--repeat", "1", "--users", "1,2",
         "--words", "3", "--max-tokens", "8", "--no-benchy"]  # fmt: skip
ONE, TWO = ("--limit", "spark-1"), ("--limit", "spark-2")


class Site:
    """A converged lab, and where its runs are kept."""

    def __init__(self, lab: Lab, fleet: Path, place: Path) -> None:
        self.fleet, self.place = fleet, place
        self.one, self.two = lab.machines
        support.converge(fleet)

    def bench(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run it with a file of its own for runs."""
        kept = ["--results", str(self.place / "runs.jsonl")]
        return support.sparkwright(self.fleet, "bench", *words, *kept)

    def run(self, *words: str) -> dict[str, Any]:
        """A run that must be measured, as its schema says. The lab has no GB10: no gate."""
        done = self.bench(LLAMA, "--json", "--gate", "0", *words)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
        found: dict[str, Any] = json.loads(done.stdout)
        schema = json.loads((PROJECT / "docs/schemas/bench.json").read_text())
        jsonschema.validate(found, schema)
        return found


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with start_lab(machines=2) as lab:
        place = tmp_path_factory.mktemp("bench")
        yield Site(lab, lab.write_fleet(place / "sparks.yaml", SERVE, support.settings()), place)


def test_a_loopback_endpoint_is_measured_through_ssh(site: Site) -> None:
    page = site.place / "bench.html"
    before = support.processes([site.one, site.two])
    found = site.run(*ONE, *SMALL, "--html", str(page))
    assert (found["machine"], found["place"]) == ("spark-1", "this computer, through SSH")
    assert [d["tokens"] for d in found["depths"]] == [16, 144]
    assert all(d["decode"] and d["prefill"] and 0 < d["share"] < 1 for d in found["depths"])
    assert [(lv["users"], lv["failed"]) for lv in found["levels"]] == [(1, 0), (2, 0)]
    assert all(lv["ttft"] and lv["tpot"] for lv in found["levels"])
    # The engine's own counter agrees with what we counted: nobody else was there.
    assert found["others"] == 0
    assert found["build"]
    assert found["digest"]
    assert found["settings"]["--parallel"] >= 1
    assert page.read_text().count("<svg") == 2
    assert support.processes([site.one, site.two]) == before


def test_from_another_machine_with_a_key(site: Site) -> None:
    key = site.two.ssh("sudo cat /etc/sparkwright/api-key").stdout.strip()
    found = site.run(*TWO, *SMALL, "--from", "spark-1")
    assert (found["machine"], found["place"]) == ("spark-2", "spark-1")
    assert found["levels"][1]["answered"] == 4
    itself = site.run(*TWO, *SMALL, "--from", "spark-2")
    direct = site.run(*TWO, *SMALL)
    assert (itself["place"], direct["place"]) == ("spark-2", "this computer")
    kept = (site.place / "runs.jsonl").read_text()
    assert len(key) > 20
    assert key not in kept + json.dumps([found, itself, direct])


def test_two_runs_are_compared(site: Site) -> None:
    done = site.bench(LLAMA, "--compare", "--json")
    found = json.loads(done.stdout)
    schema = json.loads((PROJECT / "docs/schemas/bench-compare.json").read_text())
    jsonschema.validate(found, schema)
    assert done.returncode == 0
    assert any(row["name"] == "decode at 16 tokens" for row in found["figures"])
    assert found["differs"] == ["place: spark-2 -> this computer"]


def test_below_a_gate_causes_are_named(site: Site) -> None:
    """This computer's processor is no match for a Spark's roof, so the gate is below any doubt."""
    done = site.bench(LLAMA, *ONE, *SMALL, "--gate", "0.999999")
    assert done.returncode == 1, done.stderr
    assert "BELOW THE GATE" in done.stdout
    assert "look: `sparkwright doctor slow --limit spark-1`" in done.stdout


def test_others_are_not_disturbed(site: Site) -> None:
    body = '{"prompt": "x", "n_predict": 100000, "ignore_eos": true, "stream": true}'
    site.one.ssh("sudo systemd-run -q --unit=other-user curl -sN -o /dev/null "
                 f"http://127.0.0.1:8081/completion -d '{body}'")  # fmt: skip
    try:
        busy = ("curl -s http://127.0.0.1:8081/metrics | "
                "grep -q '^llamacpp:requests_processing 1'")  # fmt: skip
        site.one.ssh(f"for n in $(seq 50); do {busy} && exit 0; sleep 0.1; done; exit 1")
        done = site.bench(LLAMA, *ONE, *SMALL)
        assert done.returncode == 2, done.stdout
        assert "1 request(s) of others are under way" in done.stderr
    finally:
        site.one.ssh("sudo systemctl stop other-user", check=False)


def test_an_unknown_recipe_and_two_machines(site: Site) -> None:
    wrong = site.bench("tiny-lama-llamacpp")
    assert (wrong.returncode, "did you mean tiny-llama-llamacpp?" in wrong.stderr) == (2, True)
    both = site.bench(LLAMA)
    assert both.returncode == 2
    assert "runs on spark-1, spark-2; choose one with --limit" in both.stderr
    far = site.bench(LLAMA, *ONE, "--from", "spark-2")
    assert far.returncode == 2
    assert "listens on 127.0.0.1 of spark-1 only" in far.stderr
    nobody = site.bench(LLAMA, *ONE, "--from", "spark-9")
    assert (nobody.returncode, "no such machine" in nobody.stderr) == (2, True)


def test_a_unit_that_is_down(site: Site) -> None:
    site.one.ssh(f"sudo systemctl stop {UNIT}")
    done = site.bench(LLAMA, *ONE, *SMALL)
    site.one.ssh(f"sudo systemctl start {UNIT}")
    assert done.returncode == 2
    assert f"spark-1: {LLAMA} is stopped" in done.stderr


def test_a_machine_that_is_off(site: Site) -> None:
    site.two.link_down()
    try:
        done = site.bench(LLAMA, *TWO, "--timeout", "3")
    finally:
        site.two.link_up()
    assert done.returncode == 2
    assert f"spark-2: {LLAMA} is unknown" in done.stderr
