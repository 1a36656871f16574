"""The lock as text, sorted and stable, and the difference of two locks in words. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import yaml

from sparkwright.artifacts import FORMAT, Artifact, HubFile, Lock, Snapshot

# Long lists of files would make a diff that nobody reads.
MAX_FILES_SHOWN: Final = 5


class _Dumper(yaml.SafeDumper):
    """SafeDumper that quotes whatever begins like a number.

    A commit such as "1234e56…" is a number to some YAML readers; in quotes it is text to all.
    """


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = "'" if value[:1] in tuple("+-.0123456789") else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def dump(lock: Lock, header: str = "") -> str:
    """The lock file's text; the same lock always gives the same text.

    + header: comment lines to keep above it
    """
    value = {
        "format": FORMAT,
        "hub": lock.hub,
        "artifacts": {name: _fields(item) for name, item in lock.artifacts.items()},
        "snapshots": {key: _snapshot(item) for key, item in lock.snapshots.items()},
    }
    body = yaml.dump(value, Dumper=_Dumper, sort_keys=True, width=100, allow_unicode=True)
    return header + body


def header_of(text: str) -> str:
    """The comment lines at the top of a file, to be kept when it is written again."""
    lines = text.splitlines(keepends=True)
    count = next((at for at, line in enumerate(lines) if not line.startswith("#")), len(lines))
    return "".join(lines[:count])


def _fields(item: Artifact) -> dict[str, Any]:
    found = {key: value for key, value in vars(item).items() if value is not None}
    found.pop("name")
    if item.packages is not None:
        found["packages"] = dict(item.packages)
    if item.archive is not None:
        found["archive"] = vars(item.archive).copy()
    return found


def _snapshot(item: Snapshot) -> dict[str, Any]:
    found = {key: value for key, value in vars(item).items() if value is not None}
    found["files"] = [
        {key: value for key, value in vars(file).items() if value is not None}
        for file in item.files
    ]
    if not item.files:
        del found["files"]
    return found


def difference(old: Lock, new: Lock) -> list[str]:
    """What moved, a line each, sorted: "artifacts/x: size: (none) -> 5"."""
    lines = []
    for name, item in sorted(new.artifacts.items()):
        before = old.artifacts.get(name, Artifact(name, item.kind))
        lines += _changes(f"artifacts/{name}", _fields(before), _fields(item))
    for key, snapshot in sorted(new.snapshots.items()):
        was = old.snapshots.get(key, Snapshot(snapshot.repo, snapshot.revision))
        plain, now = _snapshot(was), _snapshot(snapshot)
        plain.pop("files", None)
        now.pop("files", None)
        lines += _changes(f"snapshots/{key}", plain, now)
        lines += _file_changes(f"snapshots/{key}", was.files, snapshot.files)
    return lines


def _changes(where: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    return [
        f"{where}: {key}: {old.get(key, '(none)')} -> {new.get(key, '(none)')}"
        for key in sorted({*old, *new})
        if old.get(key) != new.get(key)
    ]


def _file_changes(where: str, old: tuple[HubFile, ...], new: tuple[HubFile, ...]) -> list[str]:
    if old == new:
        return []
    total = sum(file.size for file in new)
    if not old:
        return [f"{where}: files: (none) -> {len(new)} files, {total} bytes"]
    before = {file.path: file for file in old}
    after = {file.path: file for file in new}
    lines = [f"{where}: files: + {path}" for path in sorted(after.keys() - before.keys())]
    lines += [f"{where}: files: - {path}" for path in sorted(before.keys() - after.keys())]
    both = sorted(before.keys() & after.keys())
    lines += [f"{where}: files: ~ {path}" for path in both if before[path] != after[path]]
    more = len(lines) - MAX_FILES_SHOWN
    return lines if more <= 1 else [*lines[:MAX_FILES_SHOWN], f"{where}: files: {more} more"]
