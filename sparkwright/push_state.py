"""What a machine has of its part of a bundle: the question, and what the answer means."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sparkwright import push_library
from sparkwright.bundle_layout import Entry
from sparkwright.errors import SparkwrightError
from sparkwright.facts import PYTHON, ask
from sparkwright.paths import script
from sparkwright.push_plan import files_of
from sparkwright.resources import Command, Spec, State, quote
from sparkwright.sources import source_of

SHOWN: Final = 16  # digits of a hash, as push_place.py prints them


@dataclass(frozen=True)
class Seen:
    """One machine's part of the bundle, as it was asked just now.

    + files: everything that belongs there; lacking: those of them that it has not, or otherwise
    + told: all that the machine said
    """

    files: tuple[Entry, ...]
    lacking: list[Entry]
    told: Mapping[str, Any]


def look(host: Any, data: Mapping[str, Any], addresses: Sequence[str] = ()) -> Seen:
    """Ask a machine. Raises ConnectionError or SparkwrightError."""
    files = push_library.without(host, data, files_of(data))
    answer = ask(host, [state_probe(source_of(data).directory, addresses)])[0]
    return Seen(files, *missing(files, answer))


def state_probe(place: str, addresses: Sequence[str] = ()) -> Spec:
    """What is here, by stat stamps; the program is not installed yet, so it travels.

    + addresses: of which the machine says which ones are its own
    """
    argv = [*PYTHON, script("push_place.py"), "state", place, *addresses]
    return {"kind": "run", "argv": argv}


def program(command: str, place: str, files: Sequence[Entry]) -> Command:
    """prepare or settle; the list goes through standard input."""
    rows = [[entry.path, entry.size, entry.sha256] for entry in files]
    words = (*PYTHON, script("push_place.py"), command, place)
    return Command(quote(*words), stdin=json.dumps({"files": rows}))


def missing(files: Sequence[Entry], state: State) -> tuple[list[Entry], dict[str, Any]]:
    """(files that the machine lacks or has otherwise, everything that it said).

    Raises SparkwrightError when it did not say it.
    """
    try:
        told: dict[str, Any] = json.loads(state.get("out", ""))
    except ValueError:
        why = state.get("err") or state.get("error") or "no answer"
        raise SparkwrightError(f"push: the machine cannot say what it has: {why}") from None
    have = told["have"]
    return [entry for entry in files if have.get(entry.path) != entry.sha256[:SHOWN]], told
