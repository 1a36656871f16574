"""Files of a library (a NAS directory that is mounted here), used where they lie.

The weights directory holds a symbolic link for each; everything of ours lies beside the links, so
the library may be read-only. A file counts only after its hash was right once; one that is wrong
is named, noted in REFUSED as it looked then, and never linked. With library_copy files are copied.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from weights_adopt import bring
from weights_files import regular_stat, remove_entry, write_json
from weights_hash import Hashes, Work, hash_many
from weights_spec import REFUSED, File, Spec


def place(spec: Spec, name: str) -> Path:
    """Where the bytes of a wanted file are: its own place, or what a link of ours leads to."""
    own = spec.dir / name
    if not spec.library or spec.library_copy or not own.is_symlink():
        return own
    target = own.readlink()
    return target if target in [top / name for top in spec.library] else own


def looks(path: Path) -> list[int] | None:
    """[size, mtime_ns] of a regular file. No inode: a share that is mounted anew may give others
    (mount.cifs(8), noserverino)."""
    found = regular_stat(path)
    return None if found is None else [found.st_size, found.st_mtime_ns]


def refused(spec: Spec) -> dict[str, str]:
    """Path in the library -> why it is not used, as long as it looks as it did then."""
    try:
        rows: dict[str, Any] = json.loads((spec.dir / REFUSED).read_text(encoding="utf-8"))
        found = {path: (row["looks"], str(row["why"])) for path, row in rows.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
    tops = tuple(f"{top}/" for top in spec.library)
    return {p: w for p, (at, w) in found.items() if p.startswith(tops) and looks(Path(p)) == at}


def use(
    spec: Spec, files: list[File], report: Callable[[int], None], say: Callable[[str], None]
) -> dict[str, Hashes]:
    """Take files that the library has with the right hash; their hashes.

    + report: gets the bytes that were read. Raises OSError when a file cannot be read to its end
    """
    known = refused(spec)
    works: dict[str, tuple[File, Work]] = {}
    for file in files:
        path, why = _candidate(spec, file, known)
        if path and why:
            known[str(path)] = why
        elif path:
            works[file.path] = (file, Work(path, file.expected))
    hashes = hash_many([work for _, work in works.values()], report)
    used = {}
    for name, (file, work) in works.items():
        if not hashes[work.path].matches(file.expected):
            known[str(work.path)] = f"has another hash than {file.expected}"
        elif (bring if spec.library_copy else _link)(spec, work.path, file):
            used[name] = hashes[work.path]
    for name, why in sorted(known.items()):
        say(f"{name}: {why}; it is not used")
    _note(spec, known)
    return used


def _candidate(spec: Spec, file: File, known: dict[str, str]) -> tuple[Path | None, str]:
    """(the file of the library, why it cannot be right); (None, "") when there is none."""
    for top in spec.library:
        path = top / file.path
        found = regular_stat(path)
        if found is None:
            continue
        if str(path) in known:
            return path, known[str(path)]
        if found.st_size != file.size:
            return path, f"has {found.st_size} bytes, not {file.size}"
        if not os.access(path, os.R_OK):
            return path, f"cannot be read by uid {os.geteuid()}"
        return path, ""
    return None, ""


def _link(spec: Spec, path: Path, file: File) -> bool:
    own = spec.dir / file.path
    own.parent.mkdir(parents=True, exist_ok=True)
    temporary = own.with_name(f".sparkwright-{own.name}.tmp")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(path)
    remove_entry(spec, file)
    temporary.replace(own)
    return True


def _note(spec: Spec, known: dict[str, str]) -> None:
    """Keep what was refused, so that the next run says it again and a push brings it."""
    if known:
        rows = {path: {"looks": looks(Path(path)), "why": why} for path, why in known.items()}
        write_json(spec.dir / REFUSED, rows)
    else:
        (spec.dir / REFUSED).unlink(missing_ok=True)
