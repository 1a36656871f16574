"""The converged lab that all rows share, and the questions that rows ask it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.e2e import support
from tests.lab.lab import Lab
from tests.lab.machine import Machine

GPT, LLAMA = "tiny-gpt-oss-llamacpp", "tiny-llama-llamacpp"
# One recipe with a key and one without; the second machine must never notice anything.
SERVE: Mapping[str, list[object]] = {
    "spark-1": [{"recipe": GPT, "api_key": "generate"}, LLAMA],
    "spark-2": [LLAMA],
}
# Main process and its start in ticks since boot (proc(5), field 22; the name in field 2 may hold
# blanks), a line for each unit.
PROCESSES = """
for u in $(systemctl list-units --plain --no-legend 'llm-*.service' | cut -d' ' -f1); do
    p=$(systemctl show -p MainPID --value "$u")
    [ "$p" = 0 ] || echo "$u $p $(sed 's/.*) //' "/proc/$p/stat" | cut -d' ' -f20)"
done
"""


@dataclass(frozen=True)
class Report:
    """What one of our commands said.

    + phrases: (machine, text) of what differs, or of what was changed
    """

    rc: int
    phrases: list[tuple[str, str]]
    problems: list[str]
    notes: list[str]
    log: str

    @property
    def texts(self) -> list[str]:
        """The phrases without their machines."""
        return [text for _, text in self.phrases]


class Site:
    """Two machines that were converged once."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab, self.folder = lab, folder
        self.one, self.two = lab.machines
        self.main = lab.write_fleet(folder / "sparks.yaml", SERVE, support.settings())
        self.fleet = self.main
        self.kept: dict[str, str] = {}

    def root(self, script: str, machine: Machine | None = None) -> str:
        """Run shell text as root, on spark-1 unless told otherwise; ends at the first failure."""
        return (machine or self.one).ssh("sudo sh -es", input=script, timeout=120).stdout.strip()

    def processes(self) -> dict[str, str]:
        """`machine/unit` -> pid and start of every served process."""
        rows = {m.name: self.root(PROCESSES, m).splitlines() for m in self.lab.machines}
        return {
            f"{name}/{line.split()[0]}": " ".join(line.split()[1:])
            for name, lines in rows.items()
            for line in lines
        }

    def variant(self, name: str, **changes: Any) -> Path:
        """A fleet file beside the main one.

        + changes: top-level keys that are replaced
        """
        fleet = {**yaml.safe_load(self.main.read_text()), **changes}
        path = self.folder / f"{name}.yaml"
        path.write_text(yaml.safe_dump(fleet, sort_keys=False))
        return path

    def check(self, *words: str) -> Report:
        """`sparkwright check --json`."""
        return self._report("check", "drift", words)

    def converge(self, *words: str) -> Report:
        """`sparkwright converge --json`."""
        return self._report("converge", "changes", words)

    def _report(self, command: str, key: str, words: tuple[str, ...]) -> Report:
        done = support.sparkwright(self.fleet, command, "--json", *words)
        if not done.stdout:
            return Report(done.returncode, [], [], [], done.stderr)
        said = json.loads(done.stdout)
        return Report(
            done.returncode,
            [(row["host"], row["what"]) for row in said[key]],
            [row["what"] for row in said["problems"]],
            [row["what"] for row in said.get("notes", [])],
            said.get("log", "") + done.stderr,
        )
