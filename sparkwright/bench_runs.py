"""A run of `sparkwright bench` as values: when tokens came, and what follows from it. Pure."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Depth:
    """One user behind a prompt of a length.

    + tokens: of the prompt
    + prefill, decode: tok/s, medians over the repetitions; None when no answer came
    + roof: tok/s that the bandwidth allows there; share: decode of it; None where not known
    + errors: what the server said instead of answers
    """

    tokens: int
    prefill: float | None
    decode: float | None
    spread: float | None
    roof: float | None = None
    share: float | None = None
    errors: tuple[str, ...] = ()


@dataclass(frozen=True)
class Level:
    """So many users at once.

    + throughput: generated tokens of all, over the time from the first question to the last token
    + ttft, tpot: seconds to the first token, seconds for each further one: (p50, p99)
    + answered, failed: requests
    """

    users: int
    throughput: float
    ttft: tuple[float, float] | None
    tpot: tuple[float, float] | None
    answered: int
    failed: int
    errors: tuple[str, ...] = ()


@dataclass(frozen=True)
class Run:
    """One run, as it is kept.

    + at: UTC, as ISO 8601 says it; id: from it
    + place: who asked ("laptop" or a machine), and how ("tunnel", "direct", "itself", "url")
    + settings: what was asked for, and what the engine was started with
    + read_gb: GB of weights that a token reads; bandwidth: GB/s; gate: share of the roof, or None
    + others: tokens that the engine generated meanwhile for somebody else; None: not known
    + benchy: what llama-benchy measured, as rows of its tables; or why it was not run
    """

    id: str
    at: str
    recipe: str
    machine: str
    engine: str
    model: str
    build: str | None
    digest: str | None
    place: str
    settings: Mapping[str, Any]
    depths: tuple[Depth, ...] = ()
    levels: tuple[Level, ...] = ()
    bandwidth: float | None = None
    read_gb: float | None = None
    gate: float | None = None
    others: float | None = None
    benchy: Mapping[str, Any] = field(default_factory=dict)
    references: tuple[Mapping[str, Any], ...] = ()
    causes: tuple[Mapping[str, str], ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        """Did a request bring no answer?"""
        return any(d.errors for d in self.depths) or any(level.failed for level in self.levels)

    @property
    def slow(self) -> bool:
        """Is decoding at some depth below the gate?"""
        shares = [depth.share for depth in self.depths if depth.share is not None]
        return self.gate is not None and any(share < self.gate for share in shares)

    def as_json(self) -> dict[str, Any]:
        """The object of docs/schemas/bench.json; lists for tuples, as JSON has them."""
        found: dict[str, Any] = plain(dataclasses.asdict(self))
        return {**found, "failed": self.failed, "below_gate": self.slow}


def plain(value: Any) -> Any:
    """The value with lists for tuples and floats of six digits, as it is kept."""
    if isinstance(value, Mapping):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def from_json(found: Mapping[str, Any]) -> Run:
    """A kept run. Raises KeyError, TypeError for what is none."""
    names = {item.name for item in dataclasses.fields(Run)}
    kept = {key: value for key, value in found.items() if key in names}
    kept["depths"] = tuple(Depth(**{**row, "errors": tuple(row["errors"])})
                           for row in found["depths"])  # fmt: skip
    kept["levels"] = tuple(_level(row) for row in found["levels"])
    for name in ("references", "causes", "notes"):
        kept[name] = tuple(found[name])
    return Run(**kept)


def _level(row: Mapping[str, Any]) -> Level:
    pairs = {name: tuple(row[name]) if row[name] else None for name in ("ttft", "tpot")}
    return Level(**{**row, **pairs, "errors": tuple(row["errors"])})


def count(row: Mapping[str, Any]) -> int:
    """Tokens of an answer: as the server counts them, else the pieces that came."""
    return int(row["tokens"] or row["pieces"])


def pace(row: Mapping[str, Any]) -> float | None:
    """Seconds for each token after the first; None for an answer of one.

    Tokens that a server does not show (the role marks of gpt-oss in a chat) count, which makes a
    chat's pace a little too fast: 3 of 128. A plain completion shows all.
    """
    many, over = count(row), row["last"] - row["first"]
    return over / (many - 1) if many > 1 and over > 0 else None


def quantile(values: Sequence[float], share: float) -> float:
    """The quantile, between neighbours in a straight line; `values` is not empty."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def _pair(values: Sequence[float]) -> tuple[float, float] | None:
    return (quantile(values, 0.5), quantile(values, 0.99)) if values else None


def depth_of(tokens: int, rows: Sequence[Mapping[str, Any]]) -> Depth:
    """What the repetitions at one depth say."""
    good = [row for row in rows if not row["error"]]
    rates = [1 / each for row in good if (each := pace(row))]
    first = [tokens / (row["first"] - row["start"]) for row in good]
    return Depth(
        tokens=tokens,
        prefill=statistics.median(first) if first else None,
        decode=statistics.median(rates) if rates else None,
        spread=max(rates) - min(rates) if rates else None,
        errors=_errors(rows),
    )


def level_of(users: int, rows: Sequence[Mapping[str, Any]]) -> Level:
    """What so many users saw."""
    good = [row for row in rows if not row["error"]]
    begun, ended = [row["start"] for row in good], [row["last"] for row in good]
    over = max(ended) - min(begun) if good else 0.0
    return Level(
        users=users,
        throughput=sum(map(count, good)) / over if over > 0 else 0.0,
        ttft=_pair([row["first"] - row["start"] for row in good]),
        tpot=_pair([each for row in good if (each := pace(row))]),
        answered=len(good),
        failed=len(rows) - len(good),
        errors=_errors(rows),
    )


def _errors(rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(str(row["error"]) for row in rows if row["error"]))


def others(said: Mapping[str, Any]) -> float | None:
    """Tokens that the engine generated for somebody else, by its own counter; None: none.

    Answers that failed may have been generated in part, so that they say nothing.
    """
    before, after = said["before"]["tokens"], said["after"]["tokens"]
    rows = [row for part in ("depths", "users") for some in said[part] for row in some["rows"]]
    if before is None or after is None or any(row["error"] for row in rows):
        return None
    return max(0.0, float(after - before - sum(map(count, rows))))
