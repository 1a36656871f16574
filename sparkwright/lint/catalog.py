"""What releases of the engines know, over time: when a name came, when it went."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

from sparkwright import vllm_releases
from sparkwright.engine_facts import EngineFacts, read_facts

# llama-server as sparkwright builds it: introspect_llama.py's answer for that build.
LLAMA = Path(__file__).parents[1] / "data" / "llama-b11312.json"


@dataclass(frozen=True)
class Span:
    """The releases that have a name.

    + words: for messages: "0.16.0 - 0.23.0, gone in 0.24.0"; "since 0.22.1"
    + first: the oldest learned release that has it, "" when that is the oldest of all
    + hint: what vLLM says to use instead, may be empty
    """

    words: str
    first: str
    hint: str = ""


class Catalog:
    """The learned releases of vLLM."""

    @property
    def newest(self) -> EngineFacts:
        """The facts of the newest release."""
        return _facts(vllm_releases.releases()[-1])

    def facts(self, version: str) -> EngineFacts | None:
        """Facts of a release, None when it was not learned."""
        name = vllm_releases.learned(version)
        return _facts(name) if name else None

    def variable(self, name: str) -> Span | None:
        """Where a variable is; None when no release has it."""
        return _span(name)

    def flag(self, name: str) -> Span | None:
        """Where a long option is; None when no release has it."""
        return _span(f"--{name}")


@functools.cache
def _facts(version: str) -> EngineFacts:
    return vllm_releases.facts_of(version)


@functools.cache
def _span(name: str) -> Span | None:
    found = vllm_releases.history(name)
    if found is None:
        return None
    known = vllm_releases.releases()
    parts = [one if one == two else f"{one} - {two}" for one, two in found.spans]
    parts[0] = f"in {parts[0]}"
    after = known.index(found.spans[-1][1]) + 1
    oldest = found.spans[0][0]
    if after < len(known):
        parts.append(f"gone in {known[after]}")
    elif len(parts) == 1:
        parts = ["in all known releases" if oldest == known[0] else f"since {oldest}"]
    return Span(", ".join(parts), "" if oldest == known[0] else oldest, found.hint)


@functools.cache
def catalog() -> Catalog:
    """The catalog that comes with sparkwright."""
    return Catalog()


@functools.cache
def llama() -> EngineFacts:
    """llama-server's facts that come with sparkwright."""
    return read_facts(LLAMA.read_text())
