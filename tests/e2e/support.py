"""What the demo and the end-to-end tests share: lab data, converging, and looking at processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.lab.lab import Lab
from tests.lab.machine import Machine

PROJECT = Path(__file__).resolve().parents[2]
PROGRAM = str(Path(sys.executable).with_name("sparkwright"))


@dataclass(frozen=True)
class Process:
    """A unit's main process: what must not change when nothing has to."""

    pid: str
    started: str


def settings(**changes: Any) -> dict[str, Any]:
    """What the end-to-end runs want beside the lab's own settings: the CUDA task as well."""
    return {"cuda_required": True, **changes}


def sparkwright(
    fleet: Path,
    *words: str,
    env: Mapping[str, str] | None = None,
    below: Sequence[str] = (),
) -> subprocess.CompletedProcess[str]:
    """Run our console script against a fleet file.

    + below: a program with its arguments that runs it, such as faketime
    """
    return _run([*below, PROGRAM, *words], fleet, env or {})


def pyinfra(fleet: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Plain pyinfra against a fleet file, for options that our console script does not have."""
    program = str(Path(PROGRAM).with_name("pyinfra"))
    return _run([program, "inventory.py", "deploy.py", "-y", *words], fleet, {})


def _run(
    words: Sequence[str], fleet: Path, env: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    full = {**os.environ, "SPARKS_FILE": str(fleet), **env}
    return subprocess.run(
        words,
        cwd=PROJECT,
        env=full,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def converge(fleet: Path, *words: str, env: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Converge and return the summary; fails with the whole log when the run failed."""
    done = sparkwright(fleet, "converge", "--json", *words, env=env)
    assert done.returncode == 0, _tail(done)
    summary: dict[str, Any] = json.loads(done.stdout)
    return summary


def _tail(done: subprocess.CompletedProcess[str]) -> str:
    """The end of a failed run as a person reads it: the log, out of its JSON."""
    try:
        text = str(json.loads(done.stdout)["log"])
    except (ValueError, KeyError):
        text = done.stdout
    return f"{text[-6000:]}\n{done.stderr[-6000:]}"


def refused(fleet: Path, *words: str, env: Mapping[str, str] | None = None) -> str:
    """Converge where it must fail; returns what the user sees."""
    done = sparkwright(fleet, "converge", *words, env=env)
    assert done.returncode == 2, f"rc {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


def check(fleet: Path, *words: str) -> tuple[int, dict[str, Any]]:
    """Exit status and report of `sparkwright check --json`."""
    done = sparkwright(fleet, "check", "--json", *words)
    assert done.stdout, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return done.returncode, report


def drift_of(report: Mapping[str, Any]) -> list[str]:
    """The phrases of a check report."""
    return [row["what"] for row in report["drift"]]


def process(machine: Machine, unit: str) -> Process:
    """Main process of a unit, with its start in clock ticks since boot (proc(5), field 22)."""
    pid = machine.ssh(f"systemctl show -p MainPID --value {unit}").stdout.strip()
    stat = machine.ssh(f"cat /proc/{pid}/stat").stdout
    return Process(pid, stat.rsplit(")", 1)[1].split()[19])


def processes(machines: Sequence[Machine]) -> dict[str, Process]:
    """Every served unit's process on every machine."""
    found = {}
    list_units = "systemctl list-units --plain --no-legend 'llm-*.service' | cut -d' ' -f1"
    for machine in machines:
        for unit in machine.ssh(list_units).stdout.split():
            found[f"{machine.name}/{unit}"] = process(machine, unit)
    return found


def ask(machine: Machine, port: int, model: str) -> str:
    """One plain question with curl on the machine, as a user would."""
    body = json.dumps({"model": model, "messages": [{"role": "user", "content": "Who are you?"}],
                       "temperature": 0, "max_tokens": 64})  # fmt: skip
    command = (
        f"curl -sf http://127.0.0.1:{port}/v1/chat/completions "
        f"-H 'Content-Type: application/json' -d '{body}'"
    )
    answer = json.loads(machine.ssh(command).stdout)
    return str(answer["choices"][0]["message"]["content"])


def served_bytes(lab: Lab, since: int) -> int:
    """Bytes that the lab's upstream has sent since a point of its access log."""
    return sum(int(str(row["bytes"])) for row in lab.upstream.access()[since:])
