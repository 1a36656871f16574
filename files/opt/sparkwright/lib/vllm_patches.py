"""Guarded patches of an installed vLLM: only files of a known sha256 are touched, and back again.

A patch is data (sparkwright/vllm_profiles.py reads it from files/opt/sparkwright/patches):
name, fixed_in, diff (unified), and for each file its path, `known` (sha256 before -> after) and
`clean` (sha256 of files that need nothing).
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HUNK = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@")


class PatchError(Exception):
    """One line for the user."""


def sha256(content: bytes) -> str:
    """64 hex digits."""
    return hashlib.sha256(content).hexdigest()


def release(version: str) -> tuple[int, ...]:
    """The numbers of a version: "0.23.1rc1.dev7+g1" is (0, 23, 1)."""
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def has_fix(version: str, fixed_in: str) -> bool:
    """Whether upstream has the fix in this version; a candidate of that very release may not."""
    have, fixed = release(version), release(fixed_in)
    early = re.match(r"[\d.]+?\.?(a|b|rc|dev)\d*", version) is not None
    return have > fixed or (have == fixed and not early)


def beside(path: Path, before: str) -> Path:
    """Where the original of a patched file lies; its hash is in the name."""
    return path.with_name(f"{path.name}.{before[:12]}.orig")


def apply_all(site: Path, version: str, patches: Sequence[dict[str, Any]]) -> list[dict[str, str]]:
    """Apply what applies; a record for each file.

    + site: site-packages of the venv
    + version: of the installed vLLM

    Every file is looked at before the first is changed. Raises PatchError.
    """
    steps = [
        (patch, part, *_judge(site, version, patch, part))
        for patch in patches
        for part in patch["files"]
    ]
    return [_step(site, *step) for step in steps]


def _judge(
    site: Path, version: str, patch: dict[str, Any], part: dict[str, Any]
) -> tuple[str, str]:
    """(what to do with a file, its sha256 now)"""
    if has_fix(version, patch["fixed_in"]):
        return f"not needed: fixed in {patch['fixed_in']}", ""
    path = site / part["path"]
    if not path.is_file():
        raise PatchError(f"{path}: is not there; patch {patch['name']} is for another vLLM")
    have = sha256(path.read_bytes())
    if have in part["clean"]:
        return "not needed: this file lacks the defect", have
    if have in part["known"].values():
        return "applied before", have
    if have not in part["known"]:
        raise PatchError(
            f"{path}: sha256 is {have}, patch {patch['name']} knows {' and '.join(part['known'])}; "
            "take the patch out of the profile, or check the file and add its hash"
        )
    return "applied", have


def _step(
    site: Path, patch: dict[str, Any], part: dict[str, Any], what: str, have: str
) -> dict[str, str]:
    record = {"patch": patch["name"], "path": part["path"], "state": what}
    if what != "applied":
        return record
    path, after = site / part["path"], part["known"][have]
    old = path.read_bytes()
    new = patched(old.decode(), section(patch["diff"], part["path"]), part["path"]).encode()
    if sha256(new) != after:
        raise PatchError(
            f"{path}: patch {patch['name']} gives sha256 {sha256(new)}, not {after}; the patch is "
            "damaged, restore it"
        )
    shutil.copy2(path, beside(path, have))
    _replace(path, new)
    return {**record, "before": have, "after": after}


def _replace(path: Path, content: bytes) -> None:
    """By rename: the old file may be a hard link into uv's cache."""
    new = path.with_name(f"{path.name}.new")
    new.write_bytes(content)
    shutil.copymode(path, new)
    new.replace(path)


def section(diff: str, path: str) -> list[str]:
    """The hunks of one file of a unified diff, line by line."""
    found: list[str] = []
    inside = False
    for line in diff.splitlines():
        if line.startswith("--- "):
            inside = False
        elif line.startswith("+++ "):
            inside = line == f"+++ b/{path}"
        elif inside:
            found.append(line)
    return found


def patched(text: str, hunks: Sequence[str], name: str) -> str:
    """The text with the hunks applied, exactly where they say. Raises PatchError."""
    old, new, at = text.split("\n"), [], 0
    for line in hunks:
        if start := HUNK.match(line):
            new += old[at : int(start[1]) - 1]
            at = int(start[1]) - 1
        elif line.startswith("+"):
            new.append(line[1:])
        elif line[:1] in (" ", "-"):
            if at >= len(old) or old[at] != line[1:]:
                raise PatchError(f"{name}: line {at + 1} is not what the patch expects")
            new += [line[1:]] if line[0] == " " else []
            at += 1
    return "\n".join([*new, *old[at:]])


def revert_all(site: Path, records: Sequence[dict[str, str]]) -> list[str]:
    """Put the originals back; the paths that were patched. Raises PatchError, changing nothing."""
    done = [record for record in records if "before" in record]
    for record in done:
        path = site / record["path"]
        for place, wanted in (
            (path, record["after"]),
            (beside(path, record["before"]), record["before"]),
        ):
            have = sha256(place.read_bytes()) if place.is_file() else "missing"
            if have != wanted:
                raise PatchError(f"{place}: sha256 is {have}, not {wanted}; put it right first")
    for record in done:
        path = site / record["path"]
        beside(path, record["before"]).replace(path)
    return [record["path"] for record in done]
