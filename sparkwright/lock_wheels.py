"""What the lock says of wheels, checked; and the text of a locked wheel set."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any, Final

from sparkwright.artifacts import RESOLVE, Artifact, Lock
from sparkwright.errors import Problem, SparkwrightError, nearest
from sparkwright.yaml_reader import Check, Reader, Verdict, type_problem

# Beside what artifacts.NEEDS asks.
WHEELS_ALSO: Final = ("version", "size", "checks")
WHEEL_ALSO: Final = ("project", "index", "releases", "tag")
_LISTS: Final = ("imports", "missing_ok")
_KEYS: Final = ("python", "cuda", *_LISTS, "equal")


def read_checks(part: Reader) -> dict[str, Any]:
    """The `checks` of a wheel set: overrides of vllm_profiles.Checks, and `python`."""
    found: dict[str, Any] = {}
    for key, value in part.items():
        if key == "cuda" and value is None:
            found[key] = None
        elif key in ("python", "cuda"):
            found[key] = value
            _fail(part, key, type_problem(value, str) or _number(str(value)))
        elif key in _LISTS:
            found[key] = part.texts(key, _project)
        elif key == "equal":
            groups = [(place, item) for place, item in part.entries(key)]
            found[key] = tuple(_group(part, place, item) for place, item in groups)
        else:
            part.fail("", f"unknown key {key}", nearest(key, _KEYS))
    return found


def _group(part: Reader, place: str, item: object) -> tuple[str, ...]:
    names = item if isinstance(item, list) else []
    wrong = type_problem(item, list)
    for name in names:
        wrong = wrong or type_problem(name, str) or _project(str(name))
    _fail(part, place, wrong)
    return tuple(map(str, names))


def _fail(part: Reader, key: str, verdict: Verdict) -> None:
    if verdict:
        part.fail(key, *verdict)


def _number(value: str) -> Verdict:
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?", value):
        return None
    return f'must be a version such as 3.12 or 13, not "{value}"', ""


def _project(value: str) -> Verdict:
    # PEP 508's grammar of a distribution's name.
    if re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?", value):
        return None
    return f'"{value}" is no name of a distribution or module', ""


def _https(value: str) -> Verdict:
    if re.fullmatch(r"https?://[^/\s@]+(/\S*)?", value):
        return None
    return f'must be an http(s) address without a password, not "{value}"', ""


WHEEL_CHECKS: Final[Mapping[str, Check]] = {
    "project": _project,
    "index": _https,
    "releases": _https,
}


def locked_text(lock: Lock, artifact: Artifact) -> str:
    """The requirements file of a wheel set.

    Raises SparkwrightError when it is not the file whose sha256 the lock holds.
    """
    path = lock.path.parent / str(artifact.requirements)
    where = f"{lock.path.name}: artifacts/{artifact.name}"
    try:
        content = path.read_bytes()
    except OSError as error:
        raise SparkwrightError(str(Problem(where, f"{path}: {error.strerror}", RESOLVE))) from error
    have = hashlib.sha256(content).hexdigest()
    if have != artifact.sha256:
        what = f"{path} has sha256 {have}, the lock says {artifact.sha256}"
        raise SparkwrightError(str(Problem(where, what, f"look at the change, then {RESOLVE}")))
    return content.decode()
