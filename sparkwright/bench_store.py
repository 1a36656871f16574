"""Kept runs: JSON lines in one file, looked up by id, compared by two."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sparkwright.bench_runs import Run, from_json
from sparkwright.errors import SparkwrightError


@dataclass(frozen=True)
class Row:
    """One figure of two runs.

    + better: is more better? Seconds are better when there are less
    """

    name: str
    unit: str
    a: float | None
    b: float | None
    better: bool

    @property
    def change(self) -> float | None:
        """Of b against a, as a share; positive is better; None where one is absent or zero."""
        if not self.a or self.b is None:
            return None
        return (self.b / self.a - 1) if self.better else (1 - self.b / self.a)


def default_path() -> Path:
    """Where runs are kept when nobody says otherwise (XDG Base Directory Specification)."""
    home = os.environ.get("XDG_STATE_HOME") or Path("~/.local/state").expanduser()
    return Path(home) / "sparkwright/bench.jsonl"


def keep(path: Path, run: Run) -> None:
    """Append a run; readable by the user only, for it names machines.

    Raises SparkwrightError when the file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "a") as file:
            file.write(json.dumps(run.as_json()) + "\n")
    except OSError as error:
        what = f"the run cannot be kept ({error.strerror}); give --results another file"
        raise SparkwrightError(f"{path}: {what}") from None


def load(path: Path) -> list[Run]:
    """Every kept run, the oldest first; none when there is no file.

    Raises SparkwrightError that names a line which is no run.
    """
    if not path.exists():
        return []
    runs = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        try:
            runs.append(from_json(json.loads(line)))
        except (ValueError, KeyError, TypeError):
            what = "is no run of `sparkwright bench`; remove the line"
            raise SparkwrightError(f"{path}: line {number}: {what}") from None
    return runs


def pick(runs: Sequence[Run], recipe: str | None, names: Sequence[str]) -> tuple[Run, Run]:
    """The two runs with these ids, or without ids the last two of the recipe.

    Raises SparkwrightError when there are no such two.
    """
    if not names:
        mine = [run for run in runs if recipe is None or run.recipe == recipe]
        if len(mine) < 2:
            raise SparkwrightError(f"{recipe or 'bench'}: {len(mine)} run(s) kept; "
                                   "--compare needs two")  # fmt: skip
        return mine[-2], mine[-1]
    found = []
    for name in names:
        hits = [run for run in runs if run.id.startswith(name)]
        if len(hits) != 1:
            said = ", ".join(run.id for run in (hits or runs)[-5:]) or "none is kept"
            what = "several runs begin so" if hits else "no such run"
            raise SparkwrightError(f"--compare {name}: {what}; some: {said}")
        found.append(hits[0])
    return found[0], found[1]


def compared(a: Run, b: Run) -> list[Row]:
    """Figure by figure what both runs measured."""
    rows, deep = [], {depth.tokens: depth for depth in b.depths}
    for one in a.depths:
        other = deep.get(one.tokens)
        if other:
            at = f"at {one.tokens} tokens"
            rows.append(Row(f"decode {at}", "tok/s", one.decode, other.decode, True))
            rows.append(Row(f"prefill {at}", "tok/s", one.prefill, other.prefill, True))
    many = {level.users: level for level in b.levels}
    for before in a.levels:
        after = many.get(before.users)
        if after:
            by = f"{before.users} user(s)"
            rows.append(
                Row(f"throughput, {by}", "tok/s", before.throughput, after.throughput, True)
            )
            for name in ("ttft", "tpot"):
                pairs = getattr(before, name), getattr(after, name)
                for place, word in enumerate(("p50", "p99")):
                    one_s, two_s = (pair[place] * 1000 if pair else None for pair in pairs)
                    rows.append(Row(f"{name.upper()} {word}, {by}", "ms", one_s, two_s, False))
    return rows


def differences(a: Run, b: Run) -> list[str]:
    """What is not the same about two runs, so that a change is not blamed on the wrong thing."""
    names = ("recipe", "machine", "engine", "model", "build", "digest", "place")
    pairs = [(name, getattr(a, name), getattr(b, name)) for name in names]
    for key in sorted({*a.settings, *b.settings}):
        pairs.append((key, a.settings.get(key), b.settings.get(key)))
    return [f"{name}: {one} -> {two}" for name, one, two in pairs if one != two]
