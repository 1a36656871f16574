"""PLACEHOLDER until the introspection helper writes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sparkwright.engine_facts import EngineFacts


@dataclass(frozen=True)
class Backend:
    flags: Mapping[str, str | int | float | bool]
    env: Mapping[str, str]
    log_must: tuple[str, ...]
    log_must_not: tuple[str, ...]
    notes: tuple[str, ...]


def choose(kernels: str | None, facts: EngineFacts) -> Backend:
    return Backend({}, {}, (), (), ())
