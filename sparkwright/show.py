"""From a machine's answers to the unit that is wanted there, and its command. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sparkwright import serve_plan, serving
from sparkwright.errors import SparkwrightError
from sparkwright.members import entries
from sparkwright.place import place_of
from sparkwright.resources import quote
from sparkwright.site import UNIT_DIR, Planned, planned
from sparkwright.status_ask import Answer
from sparkwright.units import Service, render_unit


@dataclass(frozen=True)
class Shown:
    """One machine's unit.

    + why: what kept it from being made; then nothing else is known
    + text: of the unit; path: where it lies
    + command: what it runs, as a line for a shell, with its variables
    + drift: the first difference from what is there, or empty
    + refused: what the installed build would not take
    """

    machine: str
    why: str
    path: str = ""
    text: str = ""
    command: str = ""
    drift: str = ""
    refused: tuple[str, ...] = ()

    @property
    def code(self) -> int:
        """0 shown, 1 refused, 2 not known."""
        return 2 if self.why else 1 if self.refused else 0


def serves(data: Mapping[str, Any], recipe: str) -> bool:
    """Whether a machine's data names the recipe, as its own or as its cluster's."""
    return any(entry["recipe"] == recipe for _, entry, _ in entries(data))


def _item(data: Mapping[str, Any], recipe: str) -> Planned:
    return next(item for item in planned(data) if item.recipe.name == recipe)


def question(data: Mapping[str, Any], recipe: str) -> tuple[str, str]:
    """What is installed, and what runs. Raises SparkwrightError when it cannot be planned."""
    return "probe.py", json.dumps(serving.probes(_item(data, recipe), place_of(data)))


def shown(answer: Answer, recipe: str) -> Shown:
    """The unit of one machine."""
    if answer.said is None:
        return Shown(answer.name, answer.why)
    item, place = _item(answer.data, recipe), place_of(answer.data)
    found = serving.seen(item, answer.said)
    try:
        refused = serving.launched(item, place, found)[1].refused
        service = serving.service_of(item, planned(answer.data), place, found)
        text, drift = render_unit(service), serve_plan.plan(item, service, found).drift
    except SparkwrightError as error:
        return Shown(answer.name, " ".join(str(error).split()))
    return Shown(answer.name, "", f"{UNIT_DIR}/{item.unit}.service", text, command(service),
                 drift[0] if drift else "", tuple(refused))  # fmt: skip


def command(service: Service) -> str:
    """The program with its variables; secrets stay in their file, which is named."""
    env = [f"{name}={value}" for name, value in sorted(service.env.items())]
    line = quote(*(["env", *env] if env else []), *service.argv)
    return f"set -a; . {quote(service.env_file)}; {line}" if service.env_file else line


def as_json(one: Shown) -> dict[str, Any]:
    """A unit of docs/schemas/show.json."""
    return {
        "machine": one.machine,
        "why": one.why,
        "path": one.path,
        "text": one.text,
        "command": one.command,
        "drift": one.drift,
        "refused": list(one.refused),
    }
