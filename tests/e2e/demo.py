"""`make demo`: two machines from nothing to answering, and a second run that changes nothing.

DEMO_FROM=upstream (the default), mirror or bundle: those two make a bundle and then end upstream.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from sparkwright.fleet_artifacts import WORDS
from tests.airgap.place import MIRROR_PORT, Site, mirror
from tests.e2e import support
from tests.lab.host import LabError, cache_dir
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


@contextmanager
def fleet_from(lab: Lab, folder: Path, word: str) -> Iterator[Path]:
    """A fleet file whose artifacts come from there."""
    if word == "upstream":
        yield lab.write_fleet(folder / "sparks.yaml", SERVE, support.settings())
        return
    site = Site(lab, folder, SERVE)
    say("connected: sparkwright lock --debs, sparkwright bundle, sparkwright bundle verify")
    site.fill()
    say(f"cut off: upstream ends; the rest is from: {word}")
    site.cut_off()
    if word == "bundle":
        yield site.say_from(word, path=str(site.bundle))
        return
    with mirror(site, site.bundle, MIRROR_PORT) as url:
        yield site.say_from(word, url=url)


def main() -> int:
    """Boot, converge twice, take everything down."""
    began = time.monotonic()
    word = os.environ.get("DEMO_FROM") or "upstream"
    if word not in WORDS:
        print(f"DEMO_FROM: must be one of {', '.join(WORDS)}, not {word}", file=sys.stderr)
        return 2
    try:
        with (
            start_lab(machines=2) as lab,
            TemporaryDirectory(dir=cache_dir()) as place,
            fleet_from(lab, Path(place), word) as fleet,
        ):
            return demo(lab, fleet, began)
    except LabError as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
