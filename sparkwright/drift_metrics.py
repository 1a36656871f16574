"""What a check found, as Prometheus reads it from a file; who could not be asked is not 0. Pure.

The format is that of Prometheus' text exposition, 0.0.4; node_exporter's textfile collector reads
every *.prom of a directory, and takes no timestamps in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sparkwright.site import Planned

MACHINE: Final = ""  # the label of what is no recipe's: packages, settings, programs
GAUGES: Final[Mapping[str, str]] = {
    "sparkwright_drift": "Differences that a converge would mend; recipe is empty for those of the "
    "machine itself; NaN: the machine could not be judged.",
    "sparkwright_asked": "1 when the machine could be judged.",
    "sparkwright_check_timestamp_seconds": "When this check ended, unix time.",
}


@dataclass(frozen=True)
class Drift:
    """One machine.

    + counts: differences by recipe, MACHINE among them; None when it could not be judged
    """

    machine: str
    recipes: tuple[str, ...]
    counts: Mapping[str, int] | None


def owners(what: str, items: Sequence[Planned]) -> list[str]:
    """
    The recipes that a difference belongs to, or MACHINE.

    + what: a phrase of `sparkwright check`
    """
    found = []
    for item in items:
        unit = re.search(rf"(?<![\w.-]){re.escape(item.unit)}(?![\w-]|\.(?!service))", what)
        place = item.weights.directory if item.weights else None
        if unit or (place and what.startswith(f"{place}:")):
            found.append(item.recipe.name)
    return found or [MACHINE]


def drift_of(machine: str, items: Sequence[Planned], whats: Iterable[str] | None) -> Drift:
    """
    One machine's numbers.

    + whats: its differences; None when it could not be judged
    """
    names = tuple(item.recipe.name for item in items)
    if whats is None:
        return Drift(machine, names, None)
    counts = dict.fromkeys((MACHINE, *names), 0)
    for what in whats:
        for name in owners(what, items):
            counts[name] += 1
    return Drift(machine, names, counts)


def text(machines: Sequence[Drift], now: float) -> str:
    """
    The file's text.

    + now: unix time
    """
    samples: dict[str, list[str]] = {name: [] for name in GAUGES}
    for one in machines:
        for name in (MACHINE, *one.recipes):
            value = "NaN" if one.counts is None else str(one.counts[name])
            labels = f'machine="{_label(one.machine)}",recipe="{_label(name)}"'
            samples["sparkwright_drift"].append(f"{{{labels}}} {value}")
        asked = f'{{machine="{_label(one.machine)}"}} {int(one.counts is not None)}'
        samples["sparkwright_asked"].append(asked)
    samples["sparkwright_check_timestamp_seconds"].append(f" {now:.0f}")
    lines = []
    for name, told in GAUGES.items():
        lines += [f"# HELP {name} {told}", f"# TYPE {name} gauge"]
        lines += [f"{name}{sample}" for sample in samples[name]]
    return "\n".join(lines) + "\n"


def _label(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
