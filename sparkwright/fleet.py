"""sparks.yaml: which machines there are, how to reach them, what each serves.

sparks.example.yaml shows and explains every key.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sparkwright.errors import Problems
from sparkwright.fleet_artifacts import Artifacts, read_artifacts
from sparkwright.fleet_clusters import Cluster, read_clusters
from sparkwright.fleet_serve import Served, check_served, read_serve
from sparkwright.fleet_settings import read_settings
from sparkwright.fleet_ssh import (
    BUILTIN,
    Ssh,
    address_problem,
    normal_address,
    path_problem,
    read_ssh,
    read_sudo,
)
from sparkwright.paths import PROJECT
from sparkwright.recipes import read_recipes
from sparkwright.yaml_reader import Reader, Verdict, between
from sparkwright.yamlfile import read_map

# pyinfra makes groups of its own from these: every host, and the inventory file's name.
_GROUP_NAMES_TAKEN: Final = ("all", "inventory", "sparks")
_MISSING: Final = "cp sparks.example.yaml sparks.yaml, then edit it"


@dataclass(frozen=True)
class Spark:
    """One machine, defaults applied.

    + settings: only what differs from group_data/all.py
    """

    name: str
    address: str
    ssh: Ssh
    sudo_password_env: str | None
    settings: Mapping[str, object]
    groups: tuple[str, ...]
    serve: tuple[Served, ...]


@dataclass(frozen=True)
class Fleet:
    """All of sparks.yaml; paths are absolute.

    + rollout_batch: sparks or clusters whose running services are replaced at once
    """

    path: Path
    sparks: tuple[Spark, ...]
    artifacts: Artifacts
    lock: Path
    recipe_dirs: tuple[Path, ...]
    clusters: tuple[Cluster, ...] = ()
    rollout_batch: int = 1


def load_fleet(path: Path, settings_defaults: Mapping[str, object]) -> Fleet:
    """The fleet in a file.

    + settings_defaults: names and values of group_data/all.py
    + raises SparkwrightError with every problem of the file and of the recipes it names
    """
    problems = Problems()
    path = path.absolute()
    values = read_map(path, problems, path.name, _MISSING)
    problems.raise_if_any()
    fleet = _fleet(path, Reader(path.name, "", values, problems), settings_defaults)
    problems.raise_if_any()
    return fleet


def _fleet(path: Path, top: Reader, settings: Mapping[str, object]) -> Fleet:
    artifacts, lock = read_artifacts(path.parent, top.section("artifacts"))
    dirs = _recipe_dirs(path.parent, top)
    recipes = read_recipes(dirs, top.problems)
    base = _defaults(top.section("defaults"), settings)
    sparks = []
    if not top.has("sparks"):
        top.fail("", "sparks is missing", "add sparks: {spark-1: {address: ...}}")
    part = top.section("sparks")
    for name, values in part.items():
        _check_name(part, name)
        reader = part.at(name, values)
        spark = _spark(name, reader, base, settings)
        check_served(reader, spark.serve, {**settings, **spark.settings}, recipes)
        sparks.append(spark)
    if part.usable and top.has("sparks") and not sparks:
        part.fail("", "lists no spark", "add spark-1: {address: ...}")
    _check_together(part, sparks)
    clusters = read_clusters(top.section("clusters"), sparks, settings, recipes)
    batch = _rollout(top.section("rollout"))
    top.finish()
    return Fleet(path, tuple(sparks), artifacts, lock, dirs, clusters, batch)


def _rollout(part: Reader) -> int:
    batch = part.take("batch", int, 1, check=between(1, 1000))
    part.finish()
    return batch


def _recipe_dirs(directory: Path, top: Reader) -> tuple[Path, ...]:
    names = top.texts("recipes", check=path_problem)
    if not names:
        beside = directory / "recipes"
        return (beside if beside.is_dir() else PROJECT / "recipes",)
    dirs = [directory / Path(name).expanduser() for name in names]
    for at, found in enumerate(dirs):
        if not found.is_dir():
            top.fail(f"recipes/{at}", f"no directory {found}", "it is relative to this file")
    return tuple(dirs)


def _defaults(part: Reader, settings: Mapping[str, object]) -> Spark:
    elsewhere = dict.fromkeys(("address", "serve"), "write it under each spark")
    base = _common("", part, Spark("", "", BUILTIN, None, {}, (), ()), settings)
    part.finish(elsewhere)
    return base


def _common(name: str, part: Reader, base: Spark, settings: Mapping[str, object]) -> Spark:
    """What both defaults and a spark may say."""
    groups = part.texts("groups", check=_group_problem)
    return Spark(
        name=name,
        address="",
        ssh=read_ssh(part.section("ssh"), base.ssh),
        sudo_password_env=read_sudo(part.section("sudo"), base.sudo_password_env),
        settings={**base.settings, **read_settings(part.section("settings"), settings)},
        groups=tuple(dict.fromkeys(base.groups + groups)),
        serve=(),
    )


def _spark(name: str, part: Reader, base: Spark, settings: Mapping[str, object]) -> Spark:
    common = _common(name, part, base, settings)
    address = part.take("address", str, check=address_problem)
    serve = read_serve(part)
    part.finish()
    return Spark(
        name, address, common.ssh, common.sudo_password_env, common.settings, common.groups, serve
    )


def _check_name(part: Reader, name: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", name):
        what = f'"{name}" cannot name a spark'
        part.fail("", what, "use letters, digits, dot, dash and _, at most 63 characters")
    elif name in _GROUP_NAMES_TAKEN:
        part.fail("", f"a spark cannot be called {name}", "pyinfra has a group of that name")


def _group_problem(group: str) -> Verdict:
    if group in _GROUP_NAMES_TAKEN:
        return f"{group} is a group that holds every spark already", "remove it"
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", group):
        return f'"{group}" cannot name a group', "use letters, digits, dot, dash and _"
    return None


def _check_together(part: Reader, sparks: list[Spark]) -> None:
    names = {spark.name for spark in sparks}
    first: dict[str, str] = {}
    for spark in sparks:
        address = normal_address(spark.address)
        other = first.setdefault(address, spark.name)
        if address and other != spark.name:
            what = f"{spark.address} is the address of {other} too"
            part.fail(f"{spark.name}/address", what, "give each spark its own")
        for group in names.intersection(spark.groups):
            what = f"the group {group} has the name of a spark"
            part.fail(f"{spark.name}/groups", what, "call one of them differently")
