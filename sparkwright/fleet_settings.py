"""Settings: the names and types of group_data/all.py, and the overrides that sparks.yaml makes."""

from __future__ import annotations

import ast
import runpy
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from sparkwright.errors import SparkwrightError, nearest
from sparkwright.fleet_ssh import listen_problem
from sparkwright.yaml_reader import Check, Reader, Verdict, kind_word, one_of, type_problem

# Settings that sparks.yaml says elsewhere, and where.
_ELSEWHERE: Final = {
    "lock_file": "write artifacts: {lock: ...} at the top instead",
    "recipe_dirs": "write recipes: [...] at the top instead",
    "artifacts_from": "write artifacts: {from: ...} at the top instead",
    "artifacts_url": "write artifacts: {url: ...} at the top instead",
    "artifacts_path": "write artifacts: {path: ...} at the top instead",
    "artifacts_library": "write artifacts: {library: ...} at the top instead",
    "artifacts_library_copy": "write artifacts: {library_copy: ...} at the top instead",
    "artifacts_key": "it is bundle-key.asc beside this file",
    "serve": "write serve: under the spark instead",
    "peers": "sparkwright reads them from this file itself",
    "cluster": "write clusters: at the top instead",
    "rollout_batch": "write rollout: {batch: N} at the top instead",
}


def _clock(value: object) -> Verdict:
    """0, or a clock that a GPU can be held to: eugr/spark-vllm-docker sets 200 as the lowest."""
    if value == 0 or (isinstance(value, int) and 200 <= value <= 10000):
        return None
    return f"{value} is no clock in MHz", "0 for no cap, or 200 and above, such as 2150"


_CHECKS: Final[dict[str, Check]] = {
    "listen": listen_problem,
    "api_key": one_of("none", "generate", "open"),
    "verify": one_of("fast", "deep"),
    "gpu_clock_max_mhz": _clock,
    "container_gpus": one_of("auto", "cdi", "gpus", "none"),
}


def settings_defaults(path: Path) -> dict[str, object]:
    """The public names of a group data file with their values, as pyinfra would read them.

    + path: group_data/all.py; it is run
    + raises SparkwrightError when there is no such file
    """
    if not path.is_file():
        raise SparkwrightError(f"{path}: no such file; it holds every default: restore it")
    imported = {
        (alias.asname or alias.name).split(".")[0]
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    names = runpy.run_path(str(path))
    return {
        name: value
        for name, value in names.items()
        if not name.startswith("_") and name not in imported and not callable(value)
    }


def read_settings(part: Reader, defaults: Mapping[str, object]) -> dict[str, object]:
    """The overrides of one settings section: known names only, each of its default's type."""
    settings: dict[str, object] = {}
    for name, value in part.items():
        wrong = _problem(name, value, defaults)
        if wrong:
            part.fail(name, *wrong)
        else:
            settings[name] = value
    return settings


def _problem(name: str, value: object, defaults: Mapping[str, object]) -> Verdict:
    if name in _ELSEWHERE:
        return "is not a setting here", _ELSEWHERE[name]
    if name.startswith("ssh_"):
        return "is not a setting here", "write it under ssh: instead"
    if name not in defaults:
        known = [k for k in defaults if k not in _ELSEWHERE and not k.startswith("ssh_")]
        return f"unknown setting {name}", nearest(name, known)
    wrong = _type(value, defaults[name])
    if not wrong and name in _CHECKS:
        return _CHECKS[name](value)
    return wrong


def _type(value: object, default: object) -> Verdict:
    """The default's type is the wanted one; None as default also takes text."""
    kind = str if default is None else type(default)
    if default is None and value is None:
        return None
    wrong = type_problem(value, kind)
    if wrong or kind not in (list, dict):
        return wrong
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for item in inner:
        if not isinstance(item, str):
            hint = "put it in quotes" if isinstance(item, bool | int | float) else ""
            return f"must hold only text, not {kind_word(item)}", hint
    return None
