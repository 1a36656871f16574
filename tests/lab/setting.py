"""What the machines of a run have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .keys import Keys
from .records import Record


@dataclass(frozen=True)
class Bind:
    """A folder of the host that machines see.

    + target: absolute path in the machine
    """

    source: Path
    target: str
    read_only: bool = True


@dataclass(frozen=True)
class Setting:
    """What all machines of a run share.

    + furnish: called with the root of each new machine, to write the upstream's address
    + layer: lies over the base; with one, machines get a disk for docker
    + fabric: number of interfaces fab0, fab1 ... each on a switch of its own
    """

    record: Record
    keys: Keys
    base: Path
    binds: Sequence[Bind] = ()
    furnish: Callable[[Path], None] = lambda root: None
    layer: Path | None = None
    fabric: int = 0
