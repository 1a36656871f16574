"""What is known about the files of a weights directory: the stat stamp, and a check against it.

The stamp holds size, mtime in ns and inode of every file at the moment its hash was right. A
check compares these, which costs milliseconds for 65 GB. What it cannot see is a byte changed
under the old mtime: that is what `--deep` is for.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weights_files import leftovers, regular_stat, write_json
from weights_hash import Hashes, Work, hash_many
from weights_library import looks, place, refused
from weights_spec import MANIFEST, STAMP, SUMS, File, Spec

FORMAT = 1


@dataclass(frozen=True)
class Stamp:
    """The stat stamp as it was read; empty when there is none that can be used."""

    job: str = ""
    manifest_digest: str = ""
    files: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def trusts(self, spec: Spec, name: str, expected: str | None = None) -> bool:
        """Is the file exactly the one that was hashed, and was that hash the expected one?"""
        entry = self.files.get(name)
        if entry is None or (expected is not None and entry.get("expected") != expected):
            return False
        return stat_entry(spec, name) == entry.get("stat")


@dataclass
class Check:
    """Wanted files by state: good, unsure (there, right size, hash not known), missing."""

    good: list[File] = field(default_factory=list)
    unsure: list[File] = field(default_factory=list)
    missing: list[File] = field(default_factory=list)
    resized: list[File] = field(default_factory=list)

    @property
    def to_fetch(self) -> list[File]:
        """What has to come from somewhere else."""
        return sorted([*self.missing, *self.resized], key=lambda file: file.path)


def stat_entry(spec: Spec, name: str) -> list[int] | None:
    """[size, mtime_ns, inode] of a regular file; without the inode when it is a library's."""
    path = place(spec, name)
    if path != spec.dir / name:
        return looks(path)
    found = regular_stat(path)
    return None if found is None else [found.st_size, found.st_mtime_ns, found.st_ino]


def read_stamp(directory: Path) -> Stamp:
    """The stamp of a directory; a broken or foreign one counts as none."""
    try:
        data = json.loads((directory / STAMP).read_text(encoding="utf-8"))
        if data["format"] != FORMAT:
            return Stamp()
        return Stamp(data["job"], data["manifest_digest"], data["files"])
    except (OSError, ValueError, KeyError, TypeError):
        return Stamp()


def write_stamp(spec: Spec, manifest_digest: str, hashes: Mapping[str, Hashes]) -> None:
    """Write the stamp, the last step of a job. Raises OSError."""
    files = {
        file.path: {
            "expected": file.expected,
            "sha256": hashes[file.path].sha256,
            "stat": stat_entry(spec, file.path),
        }
        for file in spec.files
    }
    for name in (MANIFEST, SUMS):
        files[name] = {"stat": stat_entry(spec, name)}
    value = {
        "format": FORMAT,
        "job": spec.digest(),
        "manifest_digest": manifest_digest,
        "library": [str(top) for top in spec.library if _uses(spec, top)],
        "files": files,
    }
    write_json(spec.dir / STAMP, value)


def _uses(spec: Spec, top: Path) -> bool:
    return any(place(spec, file.path) == top / file.path for file in spec.files)


def check(spec: Spec, stamp: Stamp) -> Check:
    """Sort the wanted files by what the stamp and a stat say about them."""
    found = Check()
    for file in spec.files:
        state = regular_stat(place(spec, file.path))
        if state is None:
            found.missing.append(file)
        elif state.st_size != file.size:
            found.resized.append(file)
        elif os.access(spec.dir / file.path, os.R_OK) and stamp.trusts(
            spec, file.path, file.expected
        ):
            found.good.append(file)
        else:
            found.unsure.append(file)
    return found


def works(spec: Spec, files: list[File]) -> list[Work]:
    """The files as work for the hasher."""
    return [Work(place(spec, file.path), file.expected) for file in files]


def complete(spec: Spec, stamp: Stamp, found: Check) -> bool:
    """Is the whole job done: every file good, and the manifest of this very job beside them?"""
    written = all(stamp.trusts(spec, name) for name in (MANIFEST, SUMS))
    return len(found.good) == len(spec.files) and stamp.job == spec.digest() and written


def status(spec: Spec, deep: bool) -> dict[str, Any]:
    """What `weights.py status` prints.

    A deep check that finds a bad file takes it out of the stamp, so that the next `fetch`
    repairs it; when the stamp cannot be written (another user's), `message` says so.
    """
    stamp = read_stamp(spec.dir)
    found = check(spec, stamp)
    bad: list[str] = []
    message = ""
    if deep:
        bad = _bad(spec, [*found.good, *found.unsure])
        message = _distrust(spec, bad) if bad else ""
    changed = {file.path for file in [*found.unsure, *found.resized]} | set(bad)
    names = (MANIFEST, SUMS)
    changed |= {n for n in names if n in stamp.files and not stamp.trusts(spec, n)}
    to_fetch = [*found.to_fetch, *(file for file in spec.files if file.path in bad)]
    return {
        "ok": not bad and complete(spec, stamp, found),
        "manifest_digest": stamp.manifest_digest,
        "missing": [file.path for file in found.missing],
        "changed": sorted(changed),
        "leftovers": leftovers(spec),
        "missing_bytes": sum(file.size for file in to_fetch),
        "message": message,
        "refused": refused(spec),
    }


def _bad(spec: Spec, files: list[File]) -> list[str]:
    hashes = hash_many(works(spec, files))
    return [
        file.path for file in files if not hashes[place(spec, file.path)].matches(file.expected)
    ]


def _distrust(spec: Spec, names: list[str]) -> str:
    path = spec.dir / STAMP
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        for name in names:
            data["files"].pop(name, None)
        write_json(path, data)
    except FileNotFoundError:
        return ""
    except (OSError, ValueError, KeyError) as error:
        return f"{path}: cannot be changed ({error}); run: weights.py fetch SPEC.json --deep"
    return ""
