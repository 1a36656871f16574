"""Does a recipe fit into a machine? Weights, caches and what runs beside them, added up. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from sparkwright.model_shape_files import Model

GIB: Final = 2**30
# MemTotal of a Spark, GiB (MiaAI-Lab/GLM-5.3-Flash-EXL3-2x-DGX-Sparks#47).
SPARK_GIB: Final = 121.7
MOST_USERS: Final = 4096
MOST_CONTEXT: Final = 16 * 2**20


@dataclass(frozen=True)
class Part:
    """One thing that takes memory.

    + why: what it is made of, or whose number it is
    """

    name: str
    gib: float
    why: str


@dataclass(frozen=True)
class Fit:
    """The answer.

    + parts: what the machine has to hold for the asked context and users
    + available_gib: what recipes may claim: all memory less the reserve and what runs beside
    + max_context: for the asked users; 0: not even one token fits
    + max_users: with the asked context; 0: not even one fits
    + kv_token: bytes of KV cache for one token deep in a request
    + share: gpu-memory-utilization to set, None for another engine or when it does not fit
    + why: of that share, a sentence each
    + pool: what the recipe's own share gives: GiB and users with the asked context
    + notes: what limits the answer
    """

    engine: str
    context: int
    users: int
    parts: tuple[Part, ...]
    available_gib: float
    max_context: int
    max_users: int
    kv_token: float
    share: float | None = None
    why: tuple[str, ...] = ()
    pool: tuple[float, int] | None = None
    notes: tuple[str, ...] = ()
    sources: tuple[str, ...] = field(default=())

    @property
    def needed_gib(self) -> float:
        """All parts together."""
        return sum(part.gib for part in self.parts)

    @property
    def free_gib(self) -> float:
        """What stays for other recipes; negative when it does not fit."""
        return self.available_gib - self.needed_gib

    @property
    def fits(self) -> bool:
        """Does the machine hold it?"""
        return self.free_gib >= 0


@dataclass(frozen=True)
class Machine:
    """What there is.

    + total_gib: MemTotal
    + reserve_gib: what recipes may not claim (setting memory_reserve_gib)
    + beside: claims of what stays resident, by name
    """

    total_gib: float = SPARK_GIB
    reserve_gib: float = 12
    beside: tuple[Part, ...] = ()

    @property
    def available_gib(self) -> float:
        """What one more recipe may claim."""
        return self.total_gib - self.reserve_gib - sum(part.gib for part in self.beside)


def largest(fits: Callable[[int], bool], limit: int, step: int = 1) -> int:
    """The largest multiple of `step` up to `limit` that fits; 0 when none does.

    `fits` must not become true again above what it refused.
    """
    low, high = 0, limit // step
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle * step) else (low, middle - 1)
    return low * step


def weights_part(model: Model) -> Part:
    """The weights as a part."""
    said = "as the engine said it" if model.measured else "size of the files"
    return Part("weights", model.bytes / GIB, said)
