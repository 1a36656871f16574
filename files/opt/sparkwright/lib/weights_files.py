"""File-system helpers of the weights agent: regular files only, writes all or nothing."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from pathlib import Path
from stat import S_ISREG
from typing import Any

from weights_spec import CACHE, MANIFEST, OURS, REFUSED, STAMP, SUMS, File, Spec


def regular_stat(path: Path) -> os.stat_result | None:
    """lstat of a regular file; None for anything else: absent, link, directory, device.

    A link is refused although it may resolve: links of a hub cache point to a blob store that a
    copy to another machine leaves behind (spark-vllm-docker#408).
    """
    try:
        found = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found if S_ISREG(found.st_mode) else None


def write_atomic(path: Path, text: str) -> None:
    """Write a 0644 file beside its name, sync it, rename it, sync the directory.

    Raises OSError; the old file is intact then.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_directory(path.parent)


def write_json(path: Path, value: Any) -> None:
    """Write JSON as `write_atomic` does."""
    write_atomic(path, json.dumps(value, indent=1, sort_keys=True) + "\n")


def sync_directory(path: Path) -> None:
    """Make renames inside a directory survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def hub_state(spec: Spec) -> Path:
    """Where huggingface_hub keeps its notes about a local directory."""
    return spec.dir / CACHE / "huggingface"


def hub_home(spec: Spec) -> Path:
    """HF_HOME of the transfer: ours, on the file system of the weights, removed at the end."""
    return spec.dir / CACHE / "sparkwright-hub"


def incomplete_files(spec: Spec) -> list[Path]:
    """Temporary files of huggingface_hub 2.4.0; each attempt makes new names and reuses none."""
    return sorted(hub_state(spec).rglob("*.incomplete"))


def remove_stale(spec: Spec) -> int:
    """Remove `*.incomplete` files of this user that no process holds open; return their bytes.

    The caller holds the lock of the directory, so they are not of another agent, and neither are
    files that an agent was writing beside their places when it died.
    """
    names = (MANIFEST, SUMS, STAMP, REFUSED)
    written = [path for name in names for path in spec.dir.glob(f".{name}.*.tmp")]
    for path in [*written, *spec.dir.rglob(".sparkwright-*.tmp")]:
        path.unlink(missing_ok=True)
    files = incomplete_files(spec)
    busy = _open_files() if files else set()
    freed = 0
    for path in files:
        found = regular_stat(path)
        if found is None or found.st_uid != os.geteuid() or (found.st_dev, found.st_ino) in busy:
            continue
        freed += found.st_blocks * 512
        path.unlink(missing_ok=True)
    shutil.rmtree(hub_home(spec), ignore_errors=True)
    return freed


def _open_files() -> set[tuple[int, int]]:
    """Device and inode of every file that a visible process holds open."""
    found = set()
    # Processes come and go, and those of other users are closed to us. No glob over them: it ends
    # with an error when a process does so while it looks.
    for process in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            for link in os.scandir(process / "fd"):
                with contextlib.suppress(OSError):
                    state = link.stat()
                    found.add((state.st_dev, state.st_ino))
    return found


def remove_entry(spec: Spec, file: File) -> None:
    """Clear the place of a file that is to be fetched: bad file, link, empty directory.

    Raises OSError when a directory with content stands there.
    """
    path = spec.dir / file.path
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    else:
        path.unlink(missing_ok=True)
    # With its note gone the hub client cannot believe that the file is still there.
    note = hub_state(spec) / "download" / f"{file.path}.metadata"
    note.unlink(missing_ok=True)


def leftovers(spec: Spec) -> dict[str, int]:
    """Bytes of everything in the directory that is neither wanted nor ours, by its first name.

    For example {"original": 65248893184}: reported, never deleted.
    """
    wanted = {file.path for file in spec.files}
    found: dict[str, int] = {}
    if not spec.dir.is_dir():
        return found
    for top in sorted(spec.dir.iterdir()):
        if top.name in OURS or top.name.startswith(".sparkwright"):
            continue
        paths = top.rglob("*") if top.is_dir() and not top.is_symlink() else [top]
        size = 0
        for path in paths:
            state = regular_stat(path)
            if state is not None and path.relative_to(spec.dir).as_posix() not in wanted:
                size += state.st_size
        if size:
            found[top.name] = size
    return found


def why(error: Exception) -> str:
    """What went wrong with a file, and for whom; other errors speak for themselves."""
    if isinstance(error, OSError) and error.filename:
        user = f"uid {os.geteuid()}"
        return f"{error.filename}: {error.strerror}; it must be in order for {user}"
    return str(error)
