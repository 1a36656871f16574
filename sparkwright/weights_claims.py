"""What a machine's weights are asked, and what its answers say of every snapshot. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sparkwright import weights_plan
from sparkwright.paths import LIB
from sparkwright.site import lock_of, planned
from sparkwright.status_ask import Answer

GIB: Final = 2**30
_ALL: Final = ("missing everything",)


@dataclass(frozen=True)
class Snapshot:
    """One snapshot on a machine.

    + ok: whether its files are as published; None: it has no manifest, it was never finished
    + wrong: phrases, a file each
    + frees: bytes that a removal gives back; files that a bundle holds as well give none
    + last_use: unix time
    + claims: (recipe, unit, pin or process; its name)
    + fate: of a prune: "", "chosen", "removed", or why it stayed
    """

    directory: str
    repo: str
    commit: str
    bytes: int
    frees: int
    last_use: float
    claims: tuple[tuple[str, str], ...]
    ok: bool | None
    wrong: tuple[str, ...] = ()
    fate: str = ""

    @property
    def state(self) -> str:
        """complete, damaged, unfinished, or absent (a recipe wants it, nothing is there)."""
        if self.ok is None:
            return "unfinished"
        return "complete" if self.ok else "damaged" if self.bytes else "absent"


@dataclass(frozen=True)
class Store:
    """The weights of one machine.

    + why: what kept it from being asked; then nothing else is known
    + noatime: its file system keeps no time of reading: last_use is when a file was written
    + foreign: paths that are no snapshot of ours; they are never touched
    + cut: paths that an interrupted prune left
    """

    name: str
    why: str
    snapshots: tuple[Snapshot, ...] = ()
    free: int | None = None
    noatime: bool = False
    foreign: tuple[str, ...] = ()
    cut: tuple[str, ...] = ()

    @property
    def code(self) -> int:
        """0 what recipes want is whole, 1 it is not, 2 the machine could not be asked."""
        if self.why:
            return 2
        return 1 if self.broken or any(s.ok is False for s in self.snapshots) else 0

    @property
    def broken(self) -> tuple[Snapshot, ...]:
        """Snapshots that a recipe wants and that are not whole: what a repair brings."""
        return tuple(s for s in self.snapshots if not s.ok and "recipe" in dict(s.claims))

    @property
    def unclaimed(self) -> tuple[Snapshot, ...]:
        """Snapshots that nobody claims."""
        return tuple(s for s in self.snapshots if not s.claims)


def question(data: Mapping[str, Any], check: str, **more: Any) -> tuple[str, str]:
    """
    What a machine is asked; with `more` by the program that prunes.

    + check: "fast" or "deep"
    + more: apply, older_s, want_free of weights_prune.py

    Raises SparkwrightError when the machine's data cannot be planned.
    """
    wanted: dict[str, dict[str, Any]] = {}
    for item in planned(data):
        if item.weights is not None:
            spec = weights_plan.spec_of(item.weights, data, lock_of(data).hub)
            row = wanted.setdefault(item.weights.directory, {"names": [], "spec": spec})
            row["names"].append(item.recipe.name)
    spec = {"root": f"{data['data_dir']}/weights", "recipes": wanted, "lib": LIB,
            "pins": list(data["weights_pinned"]), "check": check, **more}  # fmt: skip
    return "weights_prune.py" if more else "weights_store.py", json.dumps(spec)


def store(answer: Answer) -> Store:
    """One machine's weights from its answer."""
    if answer.said is None:
        return Store(answer.name, answer.why)
    said: Mapping[str, Any] = answer.said
    fates = dict.fromkeys(said.get("chosen", ()), "chosen")
    fates |= {row["directory"]: row["why"] or "removed" for row in said.get("removed", ())}
    return Store(
        name=answer.name,
        why="",
        snapshots=(*(_snapshot(row, fates) for row in said["snapshots"]),
                   *_absent(answer.data, said["absent"])),
        free=said["free"],
        noatime=said["noatime"],
        foreign=tuple(said["foreign"]),
        cut=tuple(path for path in said["cut"] if fates.get(path) != "removed"),
    )  # fmt: skip


def _snapshot(row: Mapping[str, Any], fates: Mapping[str, str]) -> Snapshot:
    check = row["check"]
    wrong = [f"missing {name}" for name in check["missing"]]
    wrong += [f"changed {name}" for name in check["changed"]]
    return Snapshot(
        directory=row["directory"],
        repo=row["repo"],
        commit=row["commit"],
        bytes=row["bytes"],
        frees=row["frees"],
        last_use=row["last_use"],
        claims=tuple((claim["by"], claim["name"]) for claim in row["claims"]),
        ok=check["ok"],
        wrong=tuple(wrong),
        fate=fates.get(row["directory"], ""),
    )


def _absent(data: Mapping[str, Any], directories: Sequence[str]) -> list[Snapshot]:
    """What recipes want and the machine has not begun to fetch."""
    made: dict[str, Snapshot] = {}
    for item in planned(data):
        if item.weights and item.weights.directory in directories:
            place = item.weights.directory
            have = made[place].claims if place in made else ()
            claims = (*have, ("recipe", item.recipe.name))
            repo, commit = item.weights.snapshot.repo, place.rsplit("/", 1)[1]
            made[place] = Snapshot(place, repo, commit, 0, 0, 0.0, claims, False, _ALL)
    return list(made.values())
