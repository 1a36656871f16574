"""Use of files that are on the machine already: a hard link where possible, else a copy."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from weights_files import regular_stat, remove_entry
from weights_hash import Hashes, Work, hash_file
from weights_spec import File, Spec


def adopt(spec: Spec, files: list[File], say: Callable[[str], None]) -> dict[str, Hashes]:
    """Bring files from `adopt_dirs` (or behind a link in their own place); hashes of those adopted.

    A candidate counts only with the right size and hash. The original stays where it is.
    """
    adopted = {}
    for file in files:
        for candidate in _candidates(spec, file):
            hashes = _hashes(candidate, file)
            if hashes is not None and bring(spec, candidate, file):
                say(f"{file.path}: adopted from {candidate}")
                adopted[file.path] = hashes
                break
    return adopted


def _candidates(spec: Spec, file: File) -> Iterator[Path]:
    """Regular files that may hold the content; links are followed (hub caches are made of them)."""
    own = spec.dir / file.path
    places = [own] if own.is_symlink() else []
    places += [directory / file.path for directory in spec.adopt_dirs]
    for place in places:
        # An unreadable or circular place is no candidate; the file is fetched then.
        with contextlib.suppress(OSError, RuntimeError):
            target = place.resolve(strict=True)
            found = regular_stat(target)
            if found is not None and found.st_size == file.size and target != own:
                yield target


def _hashes(candidate: Path, file: File) -> Hashes | None:
    """The hashes of a file when they are the expected ones."""
    try:
        found = hash_file(Work(candidate, file.expected))
    except OSError:
        return None
    return found if found.matches(file.expected) else None


def bring(spec: Spec, source: Path, file: File) -> bool:
    """Give a proved file its place here; False when there is no room, or its copy is not it."""
    target = spec.dir / file.path
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".sparkwright-{target.name}.tmp")
    temporary.unlink(missing_ok=True)
    try:
        os.link(source, temporary)
    except OSError:
        # Another file system, or a file that this user may read but not link
        # (fs.protected_hardlinks).
        if not _copy(spec, source, temporary, file):
            return False
    remove_entry(spec, file)
    temporary.replace(target)
    return True


def _copy(spec: Spec, source: Path, temporary: Path, file: File) -> bool:
    if shutil.disk_usage(spec.dir).free < file.size + spec.margin_bytes:
        return False
    try:
        shutil.copyfile(source, temporary)
    except OSError:
        temporary.unlink(missing_ok=True)
        return False
    # The copy is read back: a copy is where bytes get lost (stack facts 3.3).
    if _hashes(temporary, file) is not None:
        return True
    temporary.unlink(missing_ok=True)
    return False
