"""Three converged machines for the tests of rollouts and locks."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.e2e import support
from tests.e2e.support import PROGRAM, PROJECT, Process
from tests.lab.lab import Lab, start_lab

RECIPE = "tiny-llama-llamacpp"
UNIT = f"llm-{RECIPE}.service"
PORT = 8081
LOCK = "/run/sparkwright/lock"


class Site:
    """Three converged machines that serve the same recipe, out of a recipe file of the test's."""

    def __init__(self, lab: Lab, place: Path) -> None:
        self.lab, self.place = lab, place
        self.names = [machine.name for machine in lab.machines]
        (place / "recipes").mkdir()
        self.recipe = yaml.safe_load((PROJECT / f"tests/lab/recipes/{RECIPE}.yaml").read_text())
        self.recipe["flags"]["flash-attn"] = "on"  # PyYAML reads on as true
        self.fleet = self.write()

    def write(self, name: str = "sparks.yaml", **changes: Any) -> Path:
        """A fleet file whose recipe has these changes."""
        folder = self.place / f"recipes-{name}"
        folder.mkdir(exist_ok=True)
        (folder / f"{RECIPE}.yaml").write_text(yaml.safe_dump({**self.recipe, **changes}))
        serve = {machine: [RECIPE] for machine in self.names}
        path = self.lab.write_fleet(self.place / name, serve)
        return self.edit(path, recipes=[str(folder)])

    def edit(self, path: Path, **top: Any) -> Path:
        """Other keys at the top of a fleet file."""
        path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), **top}))
        return path

    def processes(self) -> dict[str, Process]:
        return support.processes(self.lab.machines)

    def answers(self) -> list[str]:
        return [support.ask(m, PORT, "tiny-llama").strip() for m in self.lab.machines]

    def locks(self) -> list[str]:
        """Machines that are locked."""
        found = [(m.name, m.ssh(f"cat {LOCK}", check=False).stdout) for m in self.lab.machines]
        return [name for name, text in found if text]

    def start(self, fleet: Path) -> subprocess.Popen[str]:
        """A converge in the background, in a process group of its own."""
        return subprocess.Popen(
            [PROGRAM, "converge", "--json"],
            cwd=PROJECT, env={**os.environ, "SPARKS_FILE": str(fleet)},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True,
        )  # fmt: skip


def until(condition: Callable[[], bool], what: str, seconds: float = 120) -> None:
    """Wait for something on the machines."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.2)


@contextmanager
def three(place: Path) -> Iterator[Site]:
    """Three machines that serve the recipe; gone with the block."""
    with start_lab(machines=3) as lab:
        found = Site(lab, place)
        support.converge(found.fleet)
        yield found
