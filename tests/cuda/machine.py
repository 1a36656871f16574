"""The way of the tasks on a lab machine, up to a few compiled CUDA files."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sparkwright.facts import Machine as Facts
from sparkwright.fleet import load_fleet
from sparkwright.fleet_pyinfra import to_pyinfra
from sparkwright.fleet_settings import settings_defaults
from sparkwright.jobs import Job, describe, start_commands
from sparkwright.llama_build import plan, probes
from sparkwright.llama_flags import Wanted, newest_nvcc
from sparkwright.paths import PROJECT
from sparkwright.report import FINDINGS
from sparkwright.resources import Command, State, quote, write_file
from tasks.llama_cpp import wanted as wanted_of
from tests.cuda.proof import Evidence, object_of
from tests.lab import LabError, Machine
from tests.lab.host import say
from tests.lab.lab import Lab

# None: the project's own default, that is what a Spark builds and with what; without the lab's
# compiler cache, so what is compiled here is compiled.
SETTINGS: Mapping[str, object] = {
    "llama_cpp_backend": None,
    "llama_cpp_cmake_flags": None,
    "llama_cpp_build_env": None,
    "cuda_required": None,
    "packages_extra": None,
    "llama_cpp_build_jobs": 1,
}
PROGRAM = "/run/sparkwright/partial_build.py"
# Quick files of a model of gpt-oss' kind: 5 to 10 s each (stack.md 2.2); a loaded host is slower.
BUILD_TIMEOUT_S = 1200


def converge(fleet: Path) -> None:
    """Run preflight, base and cuda; the CUDA task must find the toolkit and change nothing.

    **Raises**: `LabError` otherwise.
    """
    program = str(Path(sys.executable).with_name("pyinfra"))
    with TemporaryDirectory() as place:
        notes = Path(place) / "findings"
        notes.touch()
        env = {**os.environ, "SPARKS_FILE": str(fleet), FINDINGS: str(notes)}
        argv = [program, "inventory.py", "tests/cuda/deploy.py", "-y"]
        done = subprocess.run(
            argv, cwd=PROJECT, stdin=subprocess.DEVNULL, check=False,
            env={**env, "PYINFRA_PROGRESS": "off"},
        )  # fmt: skip
        rows = [json.loads(line) for line in notes.read_text().splitlines()]
    if done.returncode != 0:
        raise LabError(f"pyinfra inventory.py tests/cuda/deploy.py: exit code {done.returncode}")
    drift = [row["what"] for row in rows if row["what"].startswith("CUDA toolkit")]
    if drift or not any(row["kind"] == "changed" for row in rows):
        raise LabError(f"tasks.cuda should find the toolkit and tasks.base change: {drift}")


def wanted(fleet: Path) -> Wanted:
    """What the task wants to build, from the machine's data as pyinfra has it."""
    defaults = settings_defaults(PROJECT / "group_data/all.py")
    [(_, data)] = to_pyinfra(load_fleet(fleet, defaults))["sparks"]
    return wanted_of({**defaults, **data})


def as_root(machine: Machine, command: Command) -> str:
    """One of the project's commands, the way pyinfra runs it; returns its output."""
    shell = f"sudo sh -c {quote(command.shell)}"
    return machine.ssh(shell, input=command.stdin).stdout


def answers(machine: Machine, build: Wanted) -> list[State]:
    """The machine's answers to the task's questions."""
    words = Facts().command(json.dumps(probes(build))).get_raw_value()
    states: list[State] = json.loads(as_root(machine, Command(words)))
    return states


def partial_job(build: Wanted, states: list[State], sources: Sequence[str]) -> Job:
    """The task's own job, with a few object files as targets instead of whole programs."""
    job = plan(build, states).job
    if job is None:
        raise LabError("the task plans no build on a new machine")
    spec: dict[str, Any] = {**job.spec, "targets": [object_of(name) for name in sources]}
    return dataclasses.replace(job, program=(PROGRAM,), spec=spec, stamp=None)


def follow(machine: Machine, job: Job) -> str:
    """Show the progress of a job until it has ended; returns its journal.

    **Raises**: `LabError` with the journal's end when it failed or takes too long.
    """
    deadline, said = time.monotonic() + BUILD_TIMEOUT_S, ""
    look = f"systemctl is-active {job.unit}; cat {job.directory}/progress"
    while time.monotonic() < deadline:
        state, _, text = machine.ssh(look, check=False).stdout.partition("\n")
        line = describe(json.loads(text or "{}"))
        if line != said:
            say(f"{machine.name}: {line}")
            said = line
        if state not in ("active", "activating", "deactivating"):
            break
        time.sleep(1)
    log = machine.ssh(f"sudo journalctl --no-pager -o cat -u {job.unit}").stdout
    done = machine.ssh(f"cat {job.directory}/done", check=False).stdout
    if done.strip() != job.digest:
        raise LabError(f"{job.unit} did not finish ({said}); its journal ends:\n{log[-4000:]}")
    return log


def build(lab: Lab, fleet: Path, sources: Sequence[str]) -> tuple[Evidence, str, str]:
    """Configure and compile; returns what is to be judged, the chosen nvcc and the account."""
    machine, goal = lab.machines[0], wanted(fleet)
    states = answers(machine, goal)
    nvcc, version = newest_nvcc(states[0])
    say(f"{machine.name}: the task chose {nvcc} {version}")
    job = partial_job(goal, states, sources)
    say("cmake " + " ".join(job.spec["cmake"]))
    for command in plan(goal, states).before:
        as_root(machine, command)
    text = Path(__file__).with_name("partial_build.py").read_bytes()
    prelude, *rest = start_commands(job)
    asked = len(lab.upstream.access())
    for command in (prelude, write_file(PROGRAM, text, "root", "root", "0644"), *rest):
        as_root(machine, command)
    log = follow(machine, job)
    requests = tuple(str(row["path"]) for row in lab.upstream.access()[asked:])
    return evidence(machine, job, nvcc, log, requests), nvcc, goal.user


def evidence(
    machine: Machine, job: Job, nvcc: str, log: str, requests: tuple[str, ...]
) -> Evidence:
    """Look at what the build left on the machine."""
    tree = f"{job.spec['work']}/build"
    cuobjdump = str(Path(nvcc).with_name("cuobjdump"))
    objects = {}
    for name in job.spec["targets"]:
        look = f"stat -c %U {quote(f'{tree}/{name}')}; {cuobjdump} -lelf {quote(f'{tree}/{name}')}"
        objects[Path(name).name] = as_root(machine, Command(look))
    cache = as_root(machine, Command(f"cat {quote(tree)}/CMakeCache.txt"))
    return Evidence(log, cache, objects, requests)
