"""Keys of unit files, and how systemd reads booleans and times."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_TIMES: Final = {"M": 2629800, "y": 31557600, "w": 604800, "d": 86400, "h": 3600, "m": 60, "s": 1}
_TIME_WORDS: Final = {
    "months": "M", "month": "M", "years": "y", "year": "y", "weeks": "w", "week": "w", "days": "d",
    "day": "d", "hours": "h", "hour": "h", "hr": "h", "minutes": "m", "minute": "m", "min": "m",
    "seconds": "s", "second": "s", "sec": "s", "": "s",
}  # fmt: skip


@dataclass(frozen=True)
class KnownKey:
    """A key of unit files: what kind of value it takes, the version it came with at the latest."""

    kind: str
    version: int


@functools.cache
def known_keys() -> dict[str, dict[str, KnownKey]]:
    """Section -> key -> what is known, out of systemd_keys.txt beside this module."""
    found: dict[str, dict[str, KnownKey]] = {}
    for line in Path(__file__).with_name("systemd_keys.txt").read_text().splitlines():
        if not line.startswith("#"):
            section, key, kind, version = line.split()
            found.setdefault(section, {})[key] = KnownKey(kind, int(version))
    return found


def true(value: str) -> bool:
    """Whether systemd reads a boolean as yes."""
    return value.lower() in ("1", "yes", "y", "true", "t", "on")


def seconds(value: str) -> float | None:
    """A time span in seconds, infinity included; None for what systemd does not read as one."""
    if value == "infinity":
        return float("inf")
    total, rest = 0.0, value.strip()
    while rest:
        match = re.match(r"(\d+(?:\.\d+)?)\s*([a-zµμ]*|M)\s*(?![a-zA-Z])", rest)
        if match is None:
            return None
        unit = match[2]
        scale: float | None = {"ms": 1e-3, "msec": 1e-3, "us": 1e-6, "usec": 1e-6}.get(unit)
        if scale is None:
            scale = _TIMES.get(_TIME_WORDS.get(unit, unit))
        if scale is None:
            return None
        total += float(match[1]) * scale
        rest = rest[match.end() :]
    return total if value.strip() else None
