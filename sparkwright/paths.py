"""Where the project's own files are, on the laptop and on a machine."""

from __future__ import annotations

import functools
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
FILES = PROJECT / "files"
LIB = "/opt/sparkwright/lib"  # fixed: units name it, whatever `prefix` says
RUN = "/run/sparkwright"


@functools.cache
def script(name: str) -> str:
    """Text of one of our machine-side programs.

    + name: file name in files/opt/sparkwright/lib
    """
    return (FILES / "opt/sparkwright/lib" / name).read_text()


@functools.cache
def machine_files() -> tuple[tuple[str, str], ...]:
    """(path on the machine, text) of everything under files/ that is uploaded as it is."""
    found = [p for p in FILES.rglob("*") if p.is_file() and p.suffix in {".py", ".txt", ".conf"}]
    return tuple((f"/{p.relative_to(FILES)}", p.read_text()) for p in sorted(found))
