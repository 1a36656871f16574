"""Puts text files where a copy of a bundle needs them; travels as text and runs as root.

On standard input {"run": directory, "files": {path: text}, "absent": [paths]}, all paths below
`run`. Programs (`bundle/lib`) are root's; the rest belongs to the account that logs in, which
serves and copies, and nobody else reads it: there is a token in it.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

ROOTS = ("bundle", "bundle/lib")  # directories below `run` that root keeps


def put(run: Path, files: dict[str, str], absent: list[str], uid: int, gid: int) -> None:
    """Write files, each in one step; make their directories. Raises OSError or ValueError."""
    run.mkdir(mode=0o755, parents=True, exist_ok=True)
    for name in absent:
        Path(name).unlink(missing_ok=True)
    for name, text in files.items():
        place = Path(name)
        below = place.parent.relative_to(run)
        for folder in (*reversed(below.parents[:-1]), below):
            roots = str(folder) in ROOTS
            if not (run / folder).is_dir():
                (run / folder).mkdir(mode=0o755 if roots else 0o700)
            if not roots:
                os.chown(run / folder, uid, gid)
        write(place, text, *((0o644, 0, 0) if str(below) in ROOTS else (0o600, uid, gid)))


def write(place: Path, text: str, mode: int, uid: int, gid: int) -> None:
    """Beside its place first; nothing that lies there is followed or kept."""
    beside = place.with_name(f".{place.name}.new")
    beside.unlink(missing_ok=True)
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    with os.fdopen(descriptor, "w") as file:
        os.fchown(file.fileno(), uid, gid)
        os.fchmod(file.fileno(), mode)
        file.write(text)
    beside.replace(place)


def main() -> int:
    """Put what comes; see the module's docstring."""
    os.umask(0o022)
    told = json.load(sys.stdin)
    uid, gid = (int(os.environ.get(name, 0)) for name in ("SUDO_UID", "SUDO_GID"))
    try:
        put(Path(told["run"]), told["files"], told["absent"], uid, gid)
    except OSError as error:
        print(f"push: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
