"""A weights job from start to stamp: verify, adopt, check space, fetch, verify, record.

Files are judged by their hash alone; what the hub client reports decides only whether to try
again. Finished files are never asked for a second time.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable

from weights_adopt import adopt
from weights_fetch import JobError, fetch
from weights_files import (
    hub_home,
    leftovers,
    regular_stat,
    remove_entry,
    remove_stale,
    sync_directory,
)
from weights_hash import Hashes, hash_many
from weights_library import place, refused, use
from weights_manifest import write_manifest
from weights_progress import Progress
from weights_spec import CACHE, STAMP, File, Spec
from weights_state import Stamp, check, complete, read_stamp, works, write_stamp

Say = Callable[[str], None]


def run(spec: Spec, deep: bool, progress: Progress, say: Say) -> None:
    """Make the directory hold every wanted file with the right hash, then record it.

    With `deep` the stamp is not believed and every file is hashed. Raises JobError or OSError.
    """
    stamp = Stamp() if deep else read_stamp(spec.dir)
    found = check(spec, stamp)
    if complete(spec, stamp, found):
        say(f"{spec.dir}: all {len(spec.files)} files are there, nothing to do")
        return
    _report_leftovers(spec, say)
    # First out, last in: a job that dies on the way leaves no stamp.
    (spec.dir / STAMP).unlink(missing_ok=True)
    freed = remove_stale(spec)
    if freed:
        say(f"{spec.dir}: removed {freed} bytes of unfinished downloads")
    hashes = {file.path: Hashes(stamp.files[file.path]["sha256"]) for file in found.good}
    hashes |= _verify(spec, found.unsure, progress, say)
    hashes |= _library(spec, _without(spec.files, hashes), progress, say)
    hashes |= adopt(spec, _without(spec.files, hashes), say)
    wanted = _without(spec.files, hashes)
    if wanted:
        _require_space(spec, wanted)
        for file in wanted:
            remove_entry(spec, file)
        hashes |= fetch(spec, wanted, progress, say)
    _record(spec, hashes, say)


def _without(files: tuple[File, ...], hashes: dict[str, Hashes]) -> list[File]:
    return [file for file in files if file.path not in hashes]


def _library(spec: Spec, files: list[File], progress: Progress, say: Say) -> dict[str, Hashes]:
    """Files that a library has, used where they lie."""
    if not spec.library or not files:
        return {}
    progress.phase("library", sum(file.size for file in files))
    return use(spec, files, progress.add, say)


def told(spec: Spec) -> str:
    """What the library has and is not used, in one line; nothing when all is well."""
    return "; ".join(f"{path} {why}: not used" for path, why in refused(spec).items())


def _report_leftovers(spec: Spec, say: Say) -> None:
    for name, size in leftovers(spec).items():
        say(f"{spec.dir / name}: {size} bytes that this model does not need; left alone")


def _verify(spec: Spec, files: list[File], progress: Progress, say: Say) -> dict[str, Hashes]:
    """Hash files of the right size that the stamp does not know; those that are right."""
    progress.phase("verify", sum(file.size for file in files))
    found = hash_many(works(spec, files), progress.add)
    right = {}
    for file in files:
        hashes = found[place(spec, file.path)]
        if hashes.matches(file.expected):
            right[file.path] = hashes
        else:
            say(f"{file.path}: has another hash than {file.expected}; it will be fetched again")
    return right


def _require_space(spec: Spec, wanted: list[File]) -> None:
    """Refuse before the first byte when the file system of the directory is too small."""
    missing = sum(file.size for file in wanted)
    reclaimed = 0
    for file in wanted:
        state = regular_stat(spec.dir / file.path)
        # A bad file goes before its successor comes, unless another name holds its blocks.
        if state is not None and state.st_nlink == 1:
            reclaimed += state.st_blocks * 512
    free = shutil.disk_usage(spec.dir).free
    short = missing + spec.margin_bytes - reclaimed - free
    if short > 0:
        margin = f" and {spec.margin_bytes} must stay free" if spec.margin_bytes else ""
        raise JobError(
            f"{spec.dir}: {missing} bytes are missing{margin}, {free} are free on its file "
            f"system; free {short} more"
        )


def _record(spec: Spec, hashes: dict[str, Hashes], say: Say) -> None:
    """Write the manifest, then the stamp, over files that are safely on disk."""
    shutil.rmtree(hub_home(spec), ignore_errors=True)
    shutil.rmtree(spec.dir / CACHE / "plain", ignore_errors=True)
    for directory in sorted({(spec.dir / file.path).parent for file in spec.files}):
        sync_directory(directory)
    digest = write_manifest(spec, hashes)
    write_stamp(spec, digest, hashes)
    left = check(spec, read_stamp(spec.dir))
    if len(left.good) != len(spec.files):
        (spec.dir / STAMP).unlink(missing_ok=True)
        raise JobError(f"{spec.dir}: files changed while they were recorded; run it again")
    say(f"{spec.dir}: {len(spec.files)} files, {spec.total_bytes} bytes, digest {digest}")
