"""`sparkwright lock --check` and `--outdated`: does the lock cover the recipes; is it current?"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sparkwright import cli_check, pyinfra_run
from sparkwright.apt_elsewhere import Apt
from sparkwright.artifacts import Lock, load_lock
from sparkwright.bundle_inputs import check_pins, read_debs, spark_data
from sparkwright.errors import Problems, SparkwrightError
from sparkwright.fleet import Fleet
from sparkwright.hub import Hub
from sparkwright.lock import resolve
from sparkwright.lock_debs import changes, closure
from sparkwright.lock_download import measure
from sparkwright.lock_images import resolve_image
from sparkwright.lock_machine import lay_out, machine_files
from sparkwright.lock_text import difference
from sparkwright.needs import Needs, needs_of
from sparkwright.needs_parts import absorb
from sparkwright.recipes import load_recipes
from sparkwright.registry import Registry
from sparkwright.wheel_index import page
from sparkwright.wheel_resolve import Tools, resolve_wheels


@dataclass(frozen=True)
class Question:
    """What is judged.

    + fleet: its sparks; None: one machine that serves every recipe in `directories`
    + defaults: of group_data/all.py
    + debs: sparks, directories or archives whose indexes are asked for newer packages
    """

    path: Path
    directories: Sequence[Path]
    fleet: Fleet | None
    defaults: Mapping[str, object]
    debs: Sequence[str] = ()


def machines(ask: Question) -> dict[str, Mapping[str, Any]]:
    """The data of the machines whose needs the lock must cover."""
    if ask.fleet:
        return {s.name: spark_data(ask.fleet, s, ask.defaults) for s in ask.fleet.sparks}
    data = {
        **ask.defaults,
        "lock_file": str(ask.path.absolute()),
        "recipe_dirs": [str(place.absolute()) for place in ask.directories],
        "serve": sorted(load_recipes(ask.directories)),
        "peers": [],
        "cluster": {},
    }
    return {"every recipe": data}


def needs_now(ask: Question, problems: Problems) -> Needs | None:
    """What those machines can need."""
    return needs_of(machines(ask), problems)


def check(ask: Question) -> list[str]:
    """Why the lock does not cover the recipes, a line each. Raises SparkwrightError.

    Packages count when the lock names some: only an air gap needs that (docs/air-gap.md).
    """
    problems = Problems()
    lock = load_lock(ask.path)
    needs = needs_now(ask, problems)
    if needs:
        check_pins(needs, problems)
        if needs.debs:
            read_debs(lock, needs, problems)
    return list(dict.fromkeys(str(problem) for problem in problems))


def outdated(ask: Question, environment: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """
    (what differs between the lock, upstream and what runs; what could not be asked), lines.

    Nothing is written. + environment: HF_TOKEN and HF_ENDPOINT are read from it
    """
    lock = load_lock(ask.path)
    known = {name: item for name, item in lock.artifacts.items() if item.resolved}
    now = replace(lock, artifacts=known)
    differ = [
        f"artifacts/{name}: not resolved yet" for name in sorted(lock.artifacts.keys() - known)
    ]
    problems = Problems()
    new = _upstream(now, environment, problems)
    differ += [f"upstream: {line}" for line in difference(now, new)]
    moved = [str(problem) for problem in problems if " has moved" in problem.what]
    failed = [str(problem) for problem in problems if " has moved" not in problem.what]
    differ += [f"upstream: {line}" for line in moved]
    if ask.debs:
        differ += _packages(lock, ask, failed)
    if ask.fleet:
        differ += _running(failed)
    return differ, failed


def _upstream(lock: Lock, environment: Mapping[str, str], problems: Problems) -> Lock:
    """The resolved part of the lock, asked again."""
    hub = Hub(environment.get("HF_ENDPOINT") or lock.hub, environment.get("HF_TOKEN") or None)
    images = functools.partial(resolve_image, registry=Registry(), update=True)
    new, found = resolve(lock, (), hub, measure, True, images)
    new = resolve_wheels(new, Tools(page, measure, lambda text: None), found, (), True)
    for problem in found:
        problems.add(problem.where, problem.what, problem.hint)
    return new


def _packages(lock: Lock, ask: Question, failed: list[str]) -> list[str]:
    """Newer packages in the machines' own sources."""
    problems = Problems()
    needs = needs_now(ask, problems)
    if needs is None or needs.debs is None:
        failed.append("artifacts: the lock names no packages; run: sparkwright lock --debs SPARK")
        return []
    debs, status = read_debs(lock, needs, problems)
    try:
        with tempfile.TemporaryDirectory() as place:
            apt = Apt(Path(place), needs.target.dpkg)
            apt.prepare(status or "")
            lay_out(machine_files(ask.debs[0], ask.fleet), apt.home)
            apt.update()
            words = [word for word in needs.packages if "=" not in word]
            after = {p["Package"]: p["Version"] for p in closure(apt, words)}
    except SparkwrightError as error:
        absorb(problems, error)
        after = {}
    failed += [str(problem) for problem in problems]
    before = {deb.package: deb.version for deb in debs if deb.package in after}
    return [f"upstream: {line}" for line in changes(before, after)] if after else []


def _running(failed: list[str]) -> list[str]:
    """What `sparkwright check` says of the machines."""
    outcome = pyinfra_run.run(["--dry"], quiet=True)
    code = cli_check.verdict(outcome)
    if code == cli_check.ERROR:
        told = [line for line in outcome.log.splitlines() if not line.startswith("-->")]
        failed += [row["what"] for row in outcome.of("problem")] or ["\n".join(told).strip()]
        return []
    return [f"{row['host']}: {row['what']}" for row in outcome.of("drift")]
