"""What one machine serves: a recipe, its files, its place in the fleet. Values only."""

from __future__ import annotations

from dataclasses import dataclass

from sparkwright.artifacts import HubFile, Snapshot
from sparkwright.members import Member
from sparkwright.recipe_types import Recipe


@dataclass(frozen=True)
class Weights:
    """The files that one snapshot contributes to a machine.

    + directory: absolute; holds the first 12 digits of the commit, so revisions lie side by side
    + library: directories of a mounted library that may hold the files already
    """

    snapshot: Snapshot
    directory: str
    files: tuple[HubFile, ...]
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    license: str
    gated: bool
    library: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """Short name of the download job: letters that a unit name may have."""
        return "weights-" + self.snapshot.repo.replace("/", "-").replace("_", "-").lower()


@dataclass(frozen=True)
class Planned:
    """One recipe as one machine serves it.

    + state: "running" or "standby" (installed, but started by hand only)
    + weights: of the whole snapshot, of which other recipes may use parts; None without a model
    + files: paths that this recipe itself takes
    + profile: the venv of a vLLM recipe
    + member: this machine's part when several serve the recipe together
    """

    recipe: Recipe
    port: int
    listen: str
    api_key: str
    state: str
    weights: Weights | None
    files: tuple[str, ...]
    profile: str | None = None
    member: Member | None = None

    @property
    def unit(self) -> str:
        return f"llm-{self.recipe.name}"
