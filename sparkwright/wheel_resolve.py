"""`sparkwright lock`: addresses of single wheels, and wheel sets made anew. Never guesses.

Wheels of one release are taken together or not at all: the parts of a nightly fit only each other.
A moving tag that has moved is named, never followed unless its set is asked for (`--wheels`).
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from sparkwright import wheel_sets
from sparkwright.artifacts import Artifact, Lock
from sparkwright.errors import Problems, SparkwrightError, nearest
from sparkwright.lock import Measure
from sparkwright.vllm_profiles import profile_of
from sparkwright.wheel_index import Page, WheelFile, assets_url, best, of_project, wheels_on

SET: Final = "vllm-"
# "0.23.1rc1.dev701+g00eb7cefa.d20260701": commit and day, as setuptools-scm writes them.
NIGHTLY: Final = re.compile(r"\+g(?P<commit>[0-9a-f]{7,40})(?:\.d(?P<day>[0-9]{8}))?")


@dataclass(frozen=True)
class Tools:
    """How upstream is asked: the text of a page, a measured download, and what to tell people."""

    page: Page
    measure: Measure
    tell: Callable[[str], None]


def resolve_wheels(
    lock: Lock, tools: Tools, problems: Problems, anew: Collection[str] = (), update: bool = False
) -> Lock:
    """The lock with wheels and sets filled in; problems get what could not be had.

    + anew: profiles whose set is made again, with the releases of today
    + update: ask whether moving tags have moved, and say so
    """
    found = dict(lock.artifacts)
    sets = [item for item in found.values() if item.kind == "wheels" and _profile(item)]
    for name in sorted(set(anew) - {_profile(item) for item in sets}):
        known = nearest(name, [_profile(item) for item in sets])
        problems.add("--wheels", f"no wheel set named {name} in the lock", known)
    for item in list(found.values()):
        if item.kind == "wheel" and item.index and not item.resolved:
            _attempt(found, problems, partial(_indexed, item, tools))
    for item in sets:
        again = _profile(item) in anew
        _attempt(found, problems, partial(_set, item, lock, found, tools, again, update))
    return dataclasses.replace(lock, artifacts=found)


def _attempt(
    found: dict[str, Artifact], problems: Problems, work: Callable[[], Mapping[str, Artifact]]
) -> None:
    """Take what `work` gives, all of it or nothing."""
    try:
        found |= work()
    except SparkwrightError as error:
        where, _, what = str(error).partition(": ")
        problems.add(where, what)


def _profile(item: Artifact) -> str:
    return item.name.removeprefix(SET) if item.name.startswith(SET) else ""


def _set(
    item: Artifact,
    lock: Lock,
    found: Mapping[str, Artifact],
    tools: Tools,
    again: bool,
    update: bool,
) -> dict[str, Artifact]:
    """A set with the wheels of its releases: both new, or none."""
    profile = _profile(item)
    names = profile_of(profile, item).wheels
    group = [found[name] for name in names if name in found and found[name].releases]
    changed: dict[str, Artifact] = {}
    if group and (again or update or not all(wheel.resolved for wheel in group)):
        changed = _released(profile, group, tools, again)
    path = lock.path.parent / str(item.requirements)
    if path.with_suffix(".toml").exists() and (again or not path.exists()):
        changed[item.name] = _made(item, path, {**found, **changed}, tools)
    return changed


def _indexed(item: Artifact, tools: Tools) -> dict[str, Artifact]:
    """The one file of a pinned version that an index has for a Spark."""
    project = item.project or item.name
    url = f"{str(item.index).rstrip('/')}/{project}/"
    files = [
        f for f in of_project(wheels_on(url, tools.page(url)), project) if f.version == item.version
    ]
    usable = best(files)
    if not usable:
        raise SparkwrightError(
            f"artifacts/{item.name}: {url} has no wheel of {project} {item.version} for a Spark; "
            "look at the page, and change the version in the lock"
        )
    return {item.name: _measured(item, usable[0], tools)}


def _measured(item: Artifact, file: WheelFile, tools: Tools) -> Artifact:
    url = file.url.split("#", maxsplit=1)[0]
    seen = tools.measure(url)
    told = item.sha256 if item.url == url else file.sha256
    if told not in (None, seen.sha256):
        raise SparkwrightError(
            f"artifacts/{item.name}: {url} has sha256 {seen.sha256}, not {told}; "
            "find out why before you change the lock"
        )
    return dataclasses.replace(
        item, version=file.version, url=url, size=seen.size, sha256=seen.sha256
    )


def _released(
    profile: str, group: Sequence[Artifact], tools: Tools, follow: bool
) -> dict[str, Artifact]:
    """All wheels of a set's releases, or an error for all.

    + follow: take what the tags hold today
    """
    now = {item.name: _asset(item, tools) for item in group}
    moved = [item for item in group if item.url and _file_of(item) != now[item.name].name]
    if moved and not follow:
        raise SparkwrightError("; ".join(_moved(item, now[item.name], profile) for item in moved))
    done = {item.name: _dated(_measured(item, now[item.name], tools)) for item in group}
    if {item.name: _asset(item, tools) for item in group} != now:
        raise SparkwrightError(
            f"artifacts/{group[0].name}: its tag moved while it was read; run it again"
        )
    return done


def _asset(item: Artifact, tools: Tools) -> WheelFile:
    """The one wheel of a distribution that a release holds for a Spark."""
    project, tag = item.project or item.name, str(item.tag)
    url = assets_url(str(item.releases), tag)
    files = best(of_project(wheels_on(url, tools.page(url)), project))
    if len(files) != 1:
        shown = ", ".join(file.name for file in files) or "none"
        raise SparkwrightError(
            f"artifacts/{item.name}: {tag} should hold one wheel of {project}, it holds: {shown}; "
            "the release may be half uploaded, try again later"
        )
    return files[0]


def _file_of(item: Artifact) -> str:
    return unquote(str(item.url).rsplit("/", 1)[-1])


def _moved(item: Artifact, now: WheelFile, profile: str) -> str:
    return (
        f"artifacts/{item.name}: {item.tag} has moved: {_file_of(item)} is gone, {now.name} is "
        f"there; take the new set with: sparkwright lock --wheels {profile} (what machines have "
        "stays, but no new machine can fetch the old files)"
    )


def _dated(item: Artifact) -> Artifact:
    """With the commit and day that the version tells, for people."""
    told = NIGHTLY.search(item.version or "")
    if told is None:
        return item
    day = f", built {told['day']}" if told["day"] else ""
    return dataclasses.replace(item, source=f"tag {item.tag}: commit {told['commit']}{day}")


def _made(item: Artifact, path: Path, found: Mapping[str, Artifact], tools: Tools) -> Artifact:
    """A set whose requirements file is written anew."""
    names = wheel_sets.wheels_of(wheel_sets.inputs_of(path.with_suffix(".toml")))
    wheels = [found.get(name, Artifact(name, "wheel")) for name in names]
    missing = [wheel.name for wheel in wheels if not wheel.resolved]
    if missing:
        raise SparkwrightError(
            f"artifacts/{item.name}: {', '.join(missing)} must be known first; mend the lines above"
        )
    chosen = wheel_sets.write_set(path, _profile(item), wheels, tools.tell)
    version = next((c.version for c in chosen if c.project == "vllm"), item.version)
    version = next((w.version for w in wheels if (w.project or w.name) == "vllm"), version)
    return dataclasses.replace(
        item,
        version=version,
        size=wheel_sets.total(chosen),
        sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
    )
