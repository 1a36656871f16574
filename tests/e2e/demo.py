"""`make demo`: two machines from nothing to answering, and a second run that changes nothing."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.e2e import support
from tests.lab.host import LabError
from tests.lab.lab import Lab, start_lab

SERVE = {"spark-1": ["tiny-gpt-oss-llamacpp"], "spark-2": ["tiny-llama-llamacpp"]}
PORTS = {"spark-1": (8080, "tiny-gpt-oss"), "spark-2": (8081, "tiny-llama")}


def say(text: str) -> None:
    """A heading between the programs' own output."""
    print(f"\n=== {text}", flush=True)


def live(fleet: Path) -> None:
    """`pyinfra inventory.py deploy.py -y` as a user runs it, its output on the terminal."""
    program = str(Path(sys.executable).with_name("pyinfra"))
    env = {**os.environ, "SPARKS_FILE": str(fleet), "PYINFRA_PROGRESS": "off"}
    argv = [program, "inventory.py", "deploy.py", "-y"]
    subprocess.run(argv, cwd=support.PROJECT, env=env, stdin=subprocess.DEVNULL, check=True)


def answers(lab: Lab) -> int:
    """Ask every machine; returns how many gave the expected text."""
    right = 0
    for machine in lab.machines:
        port, model = PORTS[machine.name]
        text = support.ask(machine, port, model)
        print(f"{machine.name}: asked {model} at port {port}, it says {text!r}")
        right += text.strip() == "SPARK"
    return right


def demo(lab: Lab, fleet: Path, began: float) -> int:
    """Converge twice; returns an exit status."""
    say("first run: pyinfra inventory.py deploy.py -y")
    live(fleet)
    say("the machines answer")
    answered = answers(lab)
    before = support.processes(lab.machines)
    say("second run: sparkwright converge")
    summary = support.converge(fleet)
    after = support.processes(lab.machines)
    print(f"{summary['changed']} changed")
    for name, process in after.items():
        same = "unchanged" if before.get(name) == process else f"was {before.get(name)}"
        print(f"{name}: pid {process.pid}, started at tick {process.started}, {same}")
    restarted = sum(before.get(name) != process for name, process in after.items())
    print(
        f"RESULT demo machines={len(lab.machines)} answered={answered} "
        f"second_run_changed={summary['changed']} restarted={restarted} "
        f"seconds={time.monotonic() - began:.0f}"
    )
    good = answered == len(lab.machines) and summary["changed"] == restarted == 0
    return 0 if good else 1


def main() -> int:
    """Boot, converge twice, take everything down."""
    began = time.monotonic()
    try:
        with start_lab(machines=2) as lab, TemporaryDirectory() as place:
            settings = support.settings()
            fleet = lab.write_fleet(Path(place) / "sparks.yaml", SERVE, settings)
            return demo(lab, fleet, began)
    except LabError as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
