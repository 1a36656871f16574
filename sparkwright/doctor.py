"""From what machines say to causes that people have met, each with what to do. Pure."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sparkwright.errors import SparkwrightError, nearest

if TYPE_CHECKING:
    from sparkwright.status_rows import MachineRow

TABLE: Final = Path(__file__).resolve().parent / "data/doctor-causes.json"
# What people call it, and what they see.
SYMPTOMS: Final[Mapping[str, str]] = {
    "crash": "ends by itself, at the start or at the first request; illegal instruction",
    "disk": "no space left",
    "drift": "runs otherwise than the fleet file says",
    "gpu": "the GPU is missing or not used",
    "hang": "runs and does not answer",
    "looping": "the output repeats itself",
    "memory": "out of memory, or refused for lack of it",
    "network": "two machines are slow or do not find each other (NCCL)",
    "null": "content is null or empty",
    "offline": "asks the Hub, cannot find a file without it",
    "port": "the address cannot be listened on",
    "refused": "other computers get connection refused",
    "slow": "26 instead of 59 tok/s",
    "stopped": "does not run, and nothing failed",
    "storm": "restarts again and again",
    "system": "the system message is ignored",
    "vocabulary": "gpt-oss cannot load its vocabulary",
    "wedge": "the machine hung or was reset; reads the boot before this one",
    "weights": "a model file is damaged or another one",
}


@dataclass(frozen=True)
class Cause:
    """A cause.

    + symptoms: words of SYMPTOMS; the first is the one that it is told under
    + where: the text of doctor_texts that is searched
    + fix: {recipe}, {machine} and {port} are filled in
    + rank: of what one recipe shows, only causes of the lowest rank are told: the others follow
      from those (an engine that is out of memory also failed again and again)
    + asked: told only when its symptom is asked for, since alone it is nothing wrong
    """

    name: str
    symptoms: tuple[str, ...]
    where: str
    pattern: str
    fix: str
    rank: int = 0
    asked: bool = False


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


@functools.cache
def causes() -> tuple[Cause, ...]:
    """Every cause that is known.

    Patterns are words of the programs themselves: llama.cpp 0c1e57098, vLLM 0.33, safetensors,
    systemd, NVIDIA's driver (NVIDIA/dgx-spark-playbooks#97), openai-harmony 0.0.8,
    huggingface_hub 2.4, NCCL 2.21 and later, gloo, FlashInfer
    (flashinfer#3386), Triton (triton#8539).
    """
    rows = json.loads(TABLE.read_text())
    return tuple(Cause(**{**row, "symptoms": tuple(row["symptoms"])}) for row in rows)


def chosen(symptom: str | None) -> tuple[Cause, ...]:
    """The causes of a symptom, or all. Raises SparkwrightError for one that nobody knows."""
    if symptom is None:
        return tuple(cause for cause in causes() if not cause.asked)
    if symptom not in SYMPTOMS:
        raise SparkwrightError(f"no symptom named {symptom}; {nearest(symptom, tuple(SYMPTOMS))}")
    return tuple(cause for cause in causes() if symptom in cause.symptoms)


def findings(
    machine: MachineRow,
    texts: Mapping[str, Mapping[str, str]],
    wanted: Sequence[Cause],
    symptom: str | None = None,
) -> list[Finding]:
    """
    What one machine shows.

    + texts: doctor_texts.texts: kind of text -> recipe (or "" for the machine) -> text
    + wanted: causes to look for; symptom: the one that was asked for
    """
    found: list[tuple[Cause, Finding]] = []
    for cause in wanted:
        for recipe, text in texts[cause.where].items():
            if hit := re.search(cause.pattern, text, re.M):
                told = symptom or cause.symptoms[0]
                found.append((cause, _finding(machine, recipe, cause, told, _line(text, hit))))
    lowest: dict[str, int] = {}
    for cause, one in found:
        lowest[one.recipe] = min(cause.rank, lowest.get(one.recipe, cause.rank))
    return [one for cause, one in found if cause.rank == lowest[one.recipe]]


def _line(text: str, hit: re.Match[str]) -> str:
    begin = text.rfind("\n", 0, hit.start()) + 1
    return " ".join(text[begin:].splitlines()[0].split())[:200]


def _finding(machine: MachineRow, recipe: str, cause: Cause, symptom: str, seen: str) -> Finding:
    rows = [row for row in machine.rows if row.recipe == recipe] or list(machine.rows)
    named, port = (rows[0].recipe, rows[0].port) if rows else ("RECIPE", 8000)
    fix = cause.fix.format(recipe=named, machine=machine.name, port=port)
    return Finding(machine.name, recipe, cause.name, symptom, seen, fix)
