"""A push beside a library: what lies there already does not travel."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sparkwright.bundle_layout import Entry
from sparkwright.errors import SparkwrightError
from sparkwright.facts import PYTHON, ask
from sparkwright.library import places
from sparkwright.paths import script
from sparkwright.resources import Spec, State

REFUSED = ".sparkwright-library.json"  # the weights agent's, see weights_library.py


def without(host: Any, data: Mapping[str, Any], files: Sequence[Entry]) -> tuple[Entry, ...]:
    """The files that a machine's library lacks. Raises SparkwrightError when it cannot say."""
    if not data.get("artifacts_library"):
        return tuple(files)
    return left(files, ask(host, [probe(data, files)])[0])


def probe(data: Mapping[str, Any], files: Sequence[Entry]) -> Spec:
    """Which of these are in the library, and were never found wrong there?"""
    rows = []
    for entry in (entry for entry in files if entry.path.startswith("hub/")):
        repo, _, rest = entry.path.removeprefix("hub/").partition("/resolve/")
        commit, _, name = rest.partition("/")
        there = [f"{place}/{name}" for place in places(data, repo, commit)]
        note = f"{data['data_dir']}/weights/{repo}/{commit[:12]}/{REFUSED}"
        rows.append([entry.path, entry.size, there, note])
    argv = [*PYTHON, script("push_library.py")]
    return {"kind": "run", "argv": argv, "stdin": json.dumps(rows)}


def left(files: Sequence[Entry], state: State) -> tuple[Entry, ...]:
    """What has to travel, by the machine's answer."""
    try:
        there = set(json.loads(state.get("out", "")))
    except ValueError:
        why = state.get("err") or state.get("error") or "no answer"
        raise SparkwrightError(
            f"push: the machine cannot say what its library has: {why}"
        ) from None
    return tuple(entry for entry in files if entry.path not in there)
