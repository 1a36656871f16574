"""What the engines have in common: what is installed, and how a recipe is launched with it.

An engine is a module with three functions: `probes` asks the machine, `installed` reads the
answers, `launch` gives the process. serving.py calls them and knows no engine by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from sparkwright.artifacts import Artifact
from sparkwright.engine_facts import EngineFacts
from sparkwright.resources import Spec, State
from sparkwright.site import Planned


@dataclass(frozen=True)
class Place:
    """What a unit needs to know of the machine's data.

    + reserve_gib: memory that recipes may not claim
    + gpus: how containers get the GPU (`container_gpus`)
    + images: artifacts of kind image that the machine's recipes name
    + endpoints: http addresses of the models that a page on this machine can reach
    + cluster: the machine's data of that name; empty for one in no cluster
    """

    prefix: str
    data_dir: str
    etc_dir: str
    user: str
    reserve_gib: float
    ollama_url: str
    gpus: str = "auto"
    images: Mapping[str, Artifact] = field(default_factory=dict)
    endpoints: tuple[str, ...] = ()
    cluster: Mapping[str, Any] = field(default_factory=dict)

    @property
    def tiktoken(self) -> Mapping[str, str]:
        """Variables by which both libraries find the vocabulary (tasks/tiktoken.py)."""
        names = ("TIKTOKEN_RS_CACHE_DIR", "TIKTOKEN_ENCODINGS_BASE", "TIKTOKEN_CACHE_DIR")
        return dict.fromkeys(names, f"{self.data_dir}/tiktoken")


@dataclass(frozen=True)
class Installed:
    """What a machine has for a recipe.

    + build: what is part of the unit's digest; "absent" when nothing is there
    + facts: what it knows; None when that is not known (yet)
    + made: which making of that build it is, where the running process does not tell: one that was
      damaged and made again has the same name, and the process may have loaded the damage
    """

    build: str
    facts: EngineFacts | None = None
    made: str = ""


@dataclass(frozen=True)
class Launch:
    """How a recipe runs with what is installed.

    + log_must, log_must_not: of the chosen backend, beside the recipe's own
    + refused: why this build would not take it, or would do something else, a phrase each
    + notes: what is known of this build, told with an answer that is wrong
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    log_must: tuple[str, ...] = ()
    log_must_not: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Engine(Protocol):
    """One engine."""

    def probes(self, item: Planned, place: Place) -> list[Spec]:
        """Questions about what is installed."""
        ...

    def installed(self, item: Planned, place: Place, states: Sequence[State]) -> Installed:
        """What is there, from the answers to exactly those questions."""
        ...

    def launch(self, item: Planned, place: Place, found: Installed) -> Launch:
        """The process of a recipe."""
        ...


def key_file(item: Planned, etc: str) -> str | None:
    """The API key's file when this recipe wants a key."""
    return f"{etc}/api-key" if item.api_key == "generate" else None
