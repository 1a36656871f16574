"""systemd reads every golden unit on a real machine and prints nothing about it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.lab import Machine
from tests.unit.vllm_case import GOLDEN

pytestmark = pytest.mark.lab

UNITS = sorted(GOLDEN.glob("*.service"))
VERIFY = "/run/verify"
DOCKER = "[Service]\nType=oneshot\nExecStart=/usr/bin/true\n"


def programs(text: str) -> list[str]:
    return re.findall(r"^Exec\w+=\+?(/opt\S+|/usr/bin/docker)", text, re.M)


@pytest.fixture(scope="module")
def ready(machine: Machine) -> Machine:
    """Stand-ins for the programs and for docker's own unit, since verify looks for them."""
    names = {name for unit in UNITS for name in programs(unit.read_text())}
    lines = [f"test -e {name} || install -D -m 0755 /usr/bin/true {name}" for name in sorted(names)]
    lines.append("getent passwd llm >/dev/null || useradd --system --no-create-home llm")
    lines.append("systemctl cat docker.service >/dev/null 2>&1 || install -m 0644 /dev/stdin "
                 f"/run/systemd/system/docker.service <<'E'\n{DOCKER}E")  # fmt: skip
    machine.ssh("sudo sh -e", input="\n".join(lines))
    return machine


def verified(machine: Machine, unit: Path, text: str) -> tuple[int, str]:
    machine.ssh(f"sudo install -D -m 0644 /dev/stdin {VERIFY}/{unit.name}", input=text)
    done = machine.ssh(f"systemd-analyze verify {VERIFY}/{unit.name} 2>&1", check=False)
    return done.returncode, done.stdout


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_golden_unit_verifies_silently(ready: Machine, unit: Path) -> None:
    assert verified(ready, unit, unit.read_text()) == (0, "")


def test_verify_would_notice(ready: Machine) -> None:
    text = UNITS[-1].read_text().replace("Type=exec", "Tipe=exec")
    assert "Tipe" in verified(ready, UNITS[-1], text)[1]
