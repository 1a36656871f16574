"""A bundle on a disk: what lies where, its manifest, and stamps that make a second look cheap.

MANIFEST.json         format, lock_sha256, made_for, files: [{path, size, sha256}]; written last
SHA256SUMS            the same hashes for `sha256sum -c`
artifacts.lock.yaml   the lock that it was made from
files/ simple/ wheels/ apt/ hub/ images/
.sparkwright/         ours: lock, stamps, unfinished parts; it need not travel
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from sparkwright.errors import Problem, SparkwrightError

FORMAT: Final = 1
MANIFEST, SUMS, LOCK = "MANIFEST.json", "SHA256SUMS", "artifacts.lock.yaml"
OURS: Final = ".sparkwright"
STAMPS: Final = f"{OURS}/stamps.json"
PARTIAL: Final = f"{OURS}/partial"
TOP: Final = ("files", "simple", "wheels", "apt", "hub", "images")


@dataclass(frozen=True)
class Entry:
    """One file of a manifest; size in bytes."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """What a finished bundle holds, and for which machines."""

    lock_sha256: str
    made_for: Mapping[str, str]
    files: tuple[Entry, ...]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(item.size for item in self.files)

    def text(self) -> str:
        """As it is written; the same bundle gives the same text."""
        rows = [vars(item) for item in sorted(self.files, key=lambda item: item.path)]
        value = {
            "format": FORMAT,
            "lock_sha256": self.lock_sha256,
            "made_for": dict(self.made_for),
            "files": rows,
        }
        return json.dumps(value, indent=1) + "\n"

    def sums(self) -> str:
        """The text of SHA256SUMS."""
        files = sorted(self.files, key=lambda item: item.path)
        return "".join(f"{item.sha256}  {item.path}\n" for item in files)


def read_manifest(top: Path) -> Manifest | None:
    """The manifest of a bundle; None when there is none.

    Raises SparkwrightError when it is not one of ours.
    """
    path = top / MANIFEST
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        if value["format"] != FORMAT:
            what = f"has format {value['format']}, this version reads {FORMAT}"
            raise SparkwrightError(str(Problem(str(path), what, "use the sparkwright it is from")))
        files = tuple(Entry(str(f["path"]), int(f["size"]), str(f["sha256"]))
                      for f in value["files"])  # fmt: skip
        return Manifest(str(value["lock_sha256"]), dict(value["made_for"]), files)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        hint = "fill the bundle again: sparkwright bundle"
        raise SparkwrightError(str(Problem(str(path), "is no bundle's manifest", hint))) from error


def replace_text(path: Path, text: str | bytes) -> None:
    """Write a file in one step: a cut leaves the old one."""
    beside = path.with_name(f".{path.name}.new")
    beside.write_bytes(text if isinstance(text, bytes) else text.encode())
    with beside.open("rb") as file:
        os.fsync(file.fileno())
    beside.replace(path)


@dataclass
class Stamps:
    """Which files were proved, and how they looked then: size, mtime (ns), sha256, and of what.

    No inode: a USB disk with exFAT has other ones each time it is mounted.
    """

    path: Path
    rows: dict[str, list[Any]] = field(default_factory=dict)

    @classmethod
    def load(cls, top: Path) -> Stamps:
        """Those of a bundle; without them everything is hashed again."""
        found = cls(top / STAMPS)
        with contextlib.suppress(OSError, ValueError):
            rows = json.loads(found.path.read_text())
            found.rows = rows if isinstance(rows, dict) else {}
        return found

    def sha256(self, name: str, info: os.stat_result, proof: str) -> str | None:
        """The hash of a file that looks as it did when *proof* was found true for it."""
        same = self.known(name, info)
        return same if same and self.rows[name][3:] == [proof] else None

    def known(self, name: str, info: os.stat_result) -> str | None:
        """The hash of a file that looks as it did, whatever it was proved to be."""
        row = self.rows.get(name)
        same = isinstance(row, list) and row[:2] == [info.st_size, info.st_mtime_ns]
        return str(row[2]) if same and row is not None else None

    def put(self, name: str, info: os.stat_result, sha256: str, proof: str) -> None:
        """Remember a proved file."""
        self.rows[name] = [info.st_size, info.st_mtime_ns, sha256, proof]

    def save(self) -> None:
        """Write them; where that is not possible, the next run hashes once more."""
        self.path.parent.mkdir(exist_ok=True)
        with contextlib.suppress(OSError):
            replace_text(self.path, json.dumps(dict(sorted(self.rows.items()))))


def tree(top: Path) -> Iterator[str]:
    """Every file below a bundle but ours and the manifest's own, as relative paths."""
    waiting = [""]
    while waiting:
        below = waiting.pop()
        with os.scandir(top / below) as entries:
            for entry in entries:
                name = f"{below}{entry.name}"
                if name in (OURS, MANIFEST, SUMS):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(f"{name}/")
                else:
                    yield name


def put(path: Path, content: bytes) -> None:
    """Have a small file with this content; one that has it is left alone."""
    if not path.is_file() or path.read_bytes() != content:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_text(path, content)


def settle(top: Path, made: Manifest, stamps: Stamps, tell: Callable[[str], None]) -> bool:
    """Remove what an earlier lock brought and write the manifest; whether anything differs."""
    names = {entry.path for entry in made.files}
    others = sorted(set(tree(top)) - names)
    old = [name for name in others if name in stamps.rows or name.startswith("simple/")]
    for name in old:
        (top / name).unlink()
        stamps.rows.pop(name, None)
        for folder in (top / name).parents:
            if folder == top or any(folder.iterdir()):
                break
            folder.rmdir()
    if old:
        tell(f"{len(old)} files of an earlier lock were removed, such as {old[0]}")
    for name in (name for name in others if name not in old):
        tell(f"{top / name}: does not belong here, and verify will say so; remove it")
    whole = made.text(), made.sums()
    texts = [
        path.read_text() if (path := top / name).is_file() else "" for name in (MANIFEST, SUMS)
    ]
    if not old and tuple(texts) == whole:
        return False
    put(top / SUMS, whole[1].encode())
    put(top / MANIFEST, whole[0].encode())
    return True
