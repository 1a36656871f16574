"""What a bundle is made from, read and checked: fleet, needs, locked packages."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparkwright.artifacts import Artifact, Lock, load_lock
from sparkwright.bundle_wheels import pins_of
from sparkwright.deb_index import Deb, debs_of, missing, parse
from sparkwright.errors import Problems, SparkwrightError, nearest
from sparkwright.fleet import Fleet, Spark, load_fleet
from sparkwright.fleet_clusters import cluster_data
from sparkwright.fleet_settings import settings_defaults
from sparkwright.needs import Needs, needs_of
from sparkwright.needs_parts import absorb
from sparkwright.paths import PROJECT


@dataclass(frozen=True)
class Inputs:
    """Everything from the laptop's own files.

    + debs: the package files; status: what the machines have, None when nobody was asked
    """

    fleet: Fleet
    lock: Lock
    needs: Needs
    debs: tuple[Deb, ...]
    status: str | None


def fleet_path(given: Path | None) -> Path:
    """The fleet file: as given, as SPARKS_FILE says, or sparks.yaml beside inventory.py."""
    named = given or os.environ.get("SPARKS_FILE")
    return Path(named).expanduser() if named else PROJECT / "sparks.yaml"


def read_inputs(path: Path, only: Collection[str] = ()) -> Inputs:
    """Read the fleet, its recipes and lock. Raises SparkwrightError with every problem.

    + only: names of sparks; none means all
    """
    problems = Problems()
    defaults = settings_defaults(PROJECT / "group_data/all.py")
    fleet = load_fleet(path, defaults)
    names = [spark.name for spark in fleet.sparks]
    for name in sorted(set(only) - set(names)):
        problems.add("--for", f"no spark named {name}", nearest(name, names))
    problems.raise_if_any()
    lock = load_lock(fleet.lock)
    chosen = [spark for spark in fleet.sparks if not only or spark.name in only]
    needs = needs_of({s.name: spark_data(fleet, s, defaults) for s in chosen}, problems)
    if needs is None:
        problems.raise_if_any()
        raise SparkwrightError(f"{path.name}: no spark to make a bundle for")
    debs, status = read_debs(lock, needs, problems)
    check_pins(needs, problems)
    problems.raise_if_any()
    return Inputs(fleet, lock, needs, debs, status)


def spark_data(fleet: Fleet, spark: Spark, defaults: Mapping[str, object]) -> Mapping[str, Any]:
    """A spark's pyinfra data as far as its needs depend on it."""
    data: dict[str, Any] = dict(defaults)
    for group in spark.groups:
        path = PROJECT / f"group_data/{group}.py"
        data |= settings_defaults(path) if path.is_file() else {}
    return {
        **data,
        **spark.settings,
        "lock_file": str(fleet.lock),
        "recipe_dirs": [str(place) for place in fleet.recipe_dirs],
        "serve": [vars(served) for served in spark.serve],
        "peers": [],
        "cluster": cluster_data(fleet.clusters, spark.name),
    }


def check_pins(needs: Needs, problems: Problems) -> None:
    """Whether every wheel set can be read."""
    for wheels in needs.sets:
        try:
            pins_of(wheels, needs.target)
        except SparkwrightError as error:
            absorb(problems, error)


def read_debs(lock: Lock, needs: Needs, problems: Problems) -> tuple[tuple[Deb, ...], str | None]:
    """The locked packages and the machines' status; a wanted package that is in neither is told."""
    item = needs.debs
    where = f"{lock.path.name}: artifacts/{needs.target.debs}"
    command = "run on Debian or Ubuntu: sparkwright lock --debs SPARK"
    if item is None or not item.resolved:
        problems.add(where, f"the lock names no packages for {needs.target}", command)
        return (), None
    try:
        listing = _text(lock, item, str(item.listing))
        have = hashlib.sha256(listing.encode()).hexdigest()
        if have != item.sha256:
            what = f"{item.listing} has sha256 {have}, the lock says {item.sha256}"
            problems.add(where, what, f"look at the change, then {command}")
            return (), None
        debs = tuple(debs_of(listing))
        status = _text(lock, item, item.status) if item.status else None
    except (SparkwrightError, ValueError, KeyError) as error:
        problems.add(where, f"cannot be read ({error})", command)
        return (), None
    lacking = missing(needs.packages, [deb.fields for deb in debs], parse(status or ""))
    if lacking:
        problems.add(where, f"is older than the recipes: no {', '.join(lacking)}", command)
    return debs, status


def _text(lock: Lock, item: Artifact, name: str) -> str:
    path = lock.path.parent / name
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise SparkwrightError(f"{path}: {error.strerror}") from error
