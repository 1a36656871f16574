"""Runs of pyinfra and of our console script, as a user starts them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparkwright.paths import PROJECT
from sparkwright.report import FINDINGS
from tests.unit.fake_site import SCENARIO, write_site

ONE, TWO, THREE = "@fake/spark-1", "@fake/spark-2", "@fake/spark-3"
INVENTORY = "from tests.unit.fake_machine import inventory as _i\nglobals().update(_i())\n"
BIN = Path(sys.executable).parent
# An answer that differs from what is wanted: the machine has something to do.
DRIFT = [['"kind": "sysctl"', {"values": {"vm.swappiness": "60"}}]]
# No answer at all to the first question: preflight refuses.
NO_GPU = [["nvidia-smi", {"rc": 9, "out": "", "err": "no driver"}]]

Done = subprocess.CompletedProcess[str]


def command(program: str, *words: str, env: Mapping[str, str]) -> Done:
    """Run a program of the venv in the project's directory; it must end within two minutes."""
    return subprocess.run(
        [str(BIN / program), *words],
        cwd=PROJECT,
        env={**os.environ, "PYTHONPATH": str(PROJECT), "PYINFRA_PROGRESS": "off", **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@dataclass(frozen=True)
class Fakes:
    """Machines that are only answers (tests/unit/fake_machine.py), in a directory of their own."""

    root: Path
    env: Mapping[str, str]

    @classmethod
    def write(cls, root: Path, hosts: Mapping[str, Any], **data: Any) -> Fakes:
        """
        A scenario with these machines.

        + hosts: name -> {"answers": [[text in a question, answer], ...]}
        + data: settings for all of them
        """
        serve = ["tiny", {"recipe": "nap", "state": "standby"}]
        scenario = {
            "hosts": hosts,
            "log": str(root / "log"),
            "data": {**write_site(root), "serve": serve, **data},
        }
        (root / "log").touch()
        (root / "fake_inventory.py").write_text(INVENTORY)
        (root / "scenario.json").write_text(json.dumps(scenario))
        return cls(root, {SCENARIO: str(root / "scenario.json")})

    @property
    def inventory(self) -> str:
        return str(self.root / "fake_inventory.py")

    def sparkwright(self, verb: str, *words: str, env: Mapping[str, str] | None = None) -> Done:
        """`sparkwright VERB WORDS` on these machines."""
        full = {**self.env, **(env or {})}
        return command("sparkwright", verb, "--inventory", self.inventory, *words, env=full)

    def pyinfra(self, *words: str, env: Mapping[str, str] | None = None) -> Done:
        """`pyinfra INVENTORY deploy.py WORDS` on these machines; our findings go to a file."""
        full = {**self.env, FINDINGS: str(self.root / "findings"), **(env or {})}
        (self.root / "findings").write_text("")
        return command("pyinfra", self.inventory, "deploy.py", *words, env=full)

    def findings(self) -> list[dict[str, str]]:
        """What the last `pyinfra` run noted."""
        return [json.loads(line) for line in (self.root / "findings").read_text().splitlines()]

    def executed(self) -> list[str]:
        """Everything that was run on a machine, questions left out."""
        return [json.loads(line)[1] for line in (self.root / "log").read_text().splitlines()]
