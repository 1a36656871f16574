"""One file of a weights spec, checked before anything moves."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import PurePosixPath


def file_problems(item: object, ours: Collection[str]) -> list[str]:
    """What is wrong with it, a phrase each; `ours` are names that are taken."""
    if not isinstance(item, dict) or not isinstance(item.get("path"), str):
        return ["must be a map with a path"]
    found = []
    name = item["path"]
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts or str(PurePosixPath(name)) != name:
        found.append(f"path {name!r} must be plain and relative")
    elif parts[0] in ours:
        found.append(f"path {name!r} is a name that this tool writes itself; exclude it")
    size = item.get("size")
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        found.append("size must be a number of bytes")
    lengths = {"sha256": 64, "git_sha1": 40}
    given = [key for key in lengths if item.get(key) is not None]
    if not given:
        found.append("needs sha256 or git_sha1")
    found += [
        f"{key} must be {lengths[key]} hex digits"
        for key in given
        if not re.fullmatch(rf"[0-9a-f]{{{lengths[key]}}}", str(item[key]))
    ]
    return found
