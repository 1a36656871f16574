"""From what machines say to causes that people have met, each with what to do. Pure."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sparkwright.errors import SparkwrightError, nearest
from sparkwright.site import planned
from sparkwright.status_rows import MachineRow, Row
from sparkwright.support_report import LIMIT

_JOURNAL: Final = ("journalctl", "--no-pager", "--no-hostname", "-o", "cat")
TABLE: Final = Path(__file__).resolve().parent / "data/doctor-causes.json"
LINES: Final = "600"  # a failed start of vLLM writes about 300 (measured, 0.32.0)


@dataclass(frozen=True)
class Cause:
    """A cause.

    + symptom: the word that people give to `sparkwright doctor`
    + where: text that is searched: journal (of a unit), kernel, before (kernel of the last boot),
      gpu
    + fix: {recipe} and {machine} are filled in
    """

    name: str
    symptom: str
    where: str
    pattern: str
    fix: str


@functools.cache
def causes() -> tuple[Cause, ...]:
    """Every cause that is known.

    Patterns are words of the programs themselves: llama.cpp 0c1e57098, vLLM 0.33, safetensors,
    systemd, NVIDIA's driver (NVIDIA/dgx-spark-playbooks#97), openai-harmony 0.0.8,
    huggingface_hub 2.4.
    """
    return tuple(Cause(**row) for row in json.loads(TABLE.read_text()))


def symptoms() -> tuple[str, ...]:
    """Words for `sparkwright doctor`, each once."""
    return tuple(dict.fromkeys(cause.symptom for cause in causes()))


@dataclass(frozen=True)
class Finding:
    """A cause that a machine shows.

    + seen: the line that shows it
    """

    machine: str
    recipe: str
    cause: str
    symptom: str
    seen: str
    fix: str


def question(name: str, data: Mapping[str, Any]) -> tuple[str, str]:
    """What a machine is asked, by the program that collects reports too."""
    commands = {
        item.unit: [*_JOURNAL, "-n", LINES, "-u", f"{item.unit}.service"] for item in planned(data)
    }
    commands |= {
        "kernel": [*_JOURNAL, "-k", "-b", "-n", LINES],
        "before": [*_JOURNAL, "-k", "-b", "-1", "-n", LINES],
        "gpu": ["nvidia-smi", "-q", "-d", "PERFORMANCE"],
    }
    spec = {"commands": commands, "files": {}, "limit": LIMIT,
            "secrets": [f"{data['etc_dir']}/api-key"]}  # fmt: skip
    return "status_report.py", json.dumps(spec)


def chosen(symptom: str | None) -> tuple[Cause, ...]:
    """The causes of a symptom, or all. Raises SparkwrightError for one that nobody knows."""
    if symptom is None:
        return causes()
    if symptom not in symptoms():
        raise SparkwrightError(f"no symptom named {symptom}; {nearest(symptom, symptoms())}")
    return tuple(cause for cause in causes() if cause.symptom == symptom)


def _journal(row: Row, said: Mapping[str, str]) -> str:
    """A unit's journal; of one that runs from its last start, for what came before is mended."""
    text = said[f"llm-{row.recipe}"]
    begin = text.rfind("\nStarting llm-") if row.state == "running" else 0
    return text[max(0, begin) :]


def findings(
    machine: MachineRow,
    data: Mapping[str, Any],
    said: Mapping[str, str],
    wanted: Sequence[Cause],
) -> list[Finding]:
    """
    What one machine shows.

    + said: its answers to `question`
    + wanted: causes to look for
    """
    found = list(_missing_gpu(machine, data, said, wanted))
    for cause in wanted:
        if cause.where == "journal":
            texts = {row.recipe: _journal(row, said) for row in machine.rows}
        else:
            texts = {"": said[cause.where]}
        for recipe, text in texts.items():
            if hit := re.search(cause.pattern, text):
                found.append(_finding(machine, recipe, cause, _line(text, hit)))
    return found


def _line(text: str, hit: re.Match[str]) -> str:
    begin = text.rfind("\n", 0, hit.start()) + 1
    return " ".join(text[begin:].splitlines()[0].split())[:200]


def _finding(machine: MachineRow, recipe: str, cause: Cause, seen: str) -> Finding:
    named = recipe or (machine.rows[0].recipe if machine.rows else "RECIPE")
    fix = cause.fix.format(recipe=named, machine=machine.name)
    return Finding(machine.name, recipe, cause.name, cause.symptom, seen, fix)


def _missing_gpu(
    machine: MachineRow, data: Mapping[str, Any], said: Mapping[str, str], wanted: Sequence[Cause]
) -> list[Finding]:
    """A GPU that is expected and not there, whatever the engines say."""
    gpu = next((cause for cause in wanted if cause.symptom == "gpu"), None)
    absent = said["gpu"].startswith("cannot be run") or "(exit 0)" not in said["gpu"].split("\n")[0]
    if gpu is None or not data["gpu_required"] or not absent:
        return []
    seen = said["gpu"].strip().splitlines()[-1][:200]
    return [_finding(machine, "", gpu, f"nvidia-smi: {seen}")]
