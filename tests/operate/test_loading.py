"""status while a real llama-server loads: the percent is what it has read of its weights."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.e2e import support
from tests.lab import tiny_gguf
from tests.lab.lab import start_lab
from tests.lab.machine import Machine

pytestmark = pytest.mark.lab

RECIPE = "slow-llama"
UNIT = f"llm-{RECIPE}.service"
HIDDEN = 36_000  # 64 MB
# Stops the server as soon as it has read a third of its weights, and says how much that was.
FREEZE = r"""
import os, signal, subprocess, sys, time
unit, size = sys.argv[1], int(sys.argv[2])
subprocess.run(["systemctl", "start", "--no-block", unit], check=True)
end = time.monotonic() + 120
while time.monotonic() < end:
    try:
        for pid in open(f"/sys/fs/cgroup/system.slice/{unit}/cgroup.procs").read().split():
            name = open(f"/proc/{pid}/comm").read().strip()
            read = int(open(f"/proc/{pid}/io").read().split()[1])
            if name == "llama-server" and read > size / 3:
                os.kill(int(pid), signal.SIGSTOP)
                print(open(f"/proc/{pid}/io").read().split()[1])
                sys.exit(0)
    except OSError:
        pass
    time.sleep(0.001)
sys.exit("it never read that much")
"""


def frozen(machine: Machine, size: int) -> int:
    """Start the unit, and stop it in the middle of its load; bytes that it has read."""
    (machine.root / "opt/freeze.py").write_text(FREEZE)
    # A twentieth of a CPU: else it is over before anybody looks.
    machine.ssh(f"sudo systemctl stop {UNIT}; "
                f"sudo systemctl set-property --runtime {UNIT} CPUQuota=5%")  # fmt: skip
    return int(machine.ssh(f"sudo python3 /opt/freeze.py {UNIT} {size}").stdout)


def test_a_load_shows_how_far_it_is(tmp_path: Path) -> None:
    with start_lab(machines=1) as lab:
        folder = lab.upstream.hub_dir / "sparkwright-lab/slow-llama-GGUF"
        folder.mkdir(parents=True)
        (folder / "README.md").write_text("---\nlicense: apache-2.0\n---\n")
        model = folder / "slow-llama.gguf"
        tiny_gguf.write_llama(model, HIDDEN)
        fleet = lab.write_fleet(tmp_path / "sparks.yaml", {}, support.settings())
        data = yaml.safe_load(fleet.read_text())
        data["recipes"].insert(0, str(Path(__file__).with_name("recipes")))
        data["sparks"]["spark-1"]["serve"] = [RECIPE]
        fleet.write_text(yaml.safe_dump(data))
        support.converge(fleet)
        (machine,) = lab.machines
        size = model.stat().st_size
        read = frozen(machine, size)
        done = support.sparkwright(fleet, "status", "--json")
        (row,) = json.loads(done.stdout)["machines"][0]["recipes"]
        machine.ssh(f"sudo systemctl kill -s CONT {UNIT}; "
                    f"sudo systemctl set-property --runtime {UNIT} CPUQuota=")  # fmt: skip
        machine.ssh(f"timeout 60 sh -c 'until systemctl is-active -q {UNIT}; do sleep 0.1; done'")
        after = json.loads(support.sparkwright(fleet, "status", "--json").stdout)
        (later,) = after["machines"][0]["recipes"]
    assert (done.returncode, row["state"]) == (1, "loading")
    # The gates beside it read a little too: their own program, which is no weights.
    assert 33 <= 100 * read // size <= row["percent"] <= 100 * (read + 8_000_000) // size
    assert (later["state"], later["percent"], later["accepted"]) == ("running", None, False)
