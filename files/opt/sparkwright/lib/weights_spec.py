"""What one weights job is: the JSON file that the laptop renders, checked before anything moves.

Keys of SPEC.json (required: dir, repo, commit, files):

+ dir: absolute directory that holds the files; nobody else's
+ repo, commit: repository name and its 40-hex commit
+ files: list of {path, size, sha256 | git_sha1}, only the wanted ones; sizes in bytes
+ endpoint: address of the Hub; hub_python: the Python that has huggingface_hub (only `fetch`)
+ plain: the endpoint is a plain tree of files with the Hub's paths, not a Hub
+ held: directory on this machine that has the same files, to be linked; "" for none
+ library: directories on this machine that may hold the files; they are used where they lie,
  or copied when library_copy is true
+ spread: other machines that may have files (spread_job.py), or null
+ include, exclude, license, manifest: recorded in MANIFEST.json (manifest: a map of extras)
+ adopt_dirs: directories that may hold the same files already
+ token_file: file with the Hub token, or null
+ stall_s: seconds without a new byte after which a transfer is killed
+ progress: path of the progress file, or null
+ margin_bytes: bytes that must stay free on the file system beside the missing ones
+ retry_wait_s: seconds before the first retry after a failed transfer; doubles each time
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weights_spec_file import file_problems

MANIFEST = "MANIFEST.json"
SUMS = "SHA256SUMS"
STAMP = ".sparkwright-stat.json"
LOCK = ".sparkwright-lock"
REFUSED = ".sparkwright-library.json"
CACHE = ".cache"
OURS = (MANIFEST, SUMS, STAMP, LOCK, CACHE, REFUSED)

# Ten minutes: xet freezes reported in xet-core#898 and #883 lasted 30 minutes and more, and a
# healthy transfer writes every second.
STALL_S = 600.0
RETRY_WAIT_S = 5.0

_TEXTS = ("repo", "endpoint", "hub_python", "license", "held")
_LISTS = ("include", "exclude", "adopt_dirs", "library")


class SpecError(Exception):
    """The spec cannot be used; the message has one problem a line."""


@dataclass(frozen=True)
class File:
    """One wanted file: path below the directory, size in bytes, and one of two hashes."""

    path: str
    size: int
    sha256: str | None
    git_sha1: str | None

    @property
    def expected(self) -> str:
        """The hash that the lock file gives: "sha256:…" or "git_sha1:…"."""
        return f"sha256:{self.sha256}" if self.sha256 else f"git_sha1:{self.git_sha1}"


@dataclass(frozen=True)
class Spec:
    """One weights job; the module's docstring says what each field is."""

    dir: Path
    repo: str
    commit: str
    files: tuple[File, ...]
    endpoint: str
    hub_python: str
    license: str
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    adopt_dirs: tuple[Path, ...]
    token_file: Path | None
    progress: Path | None
    manifest: dict[str, Any]
    stall_s: float
    margin_bytes: int
    retry_wait_s: float
    plain: bool = False
    held: str = ""
    library: tuple[Path, ...] = ()
    library_copy: bool = False
    spread: dict[str, Any] | None = None

    @property
    def total_bytes(self) -> int:
        """Size of all wanted files in bytes."""
        return sum(file.size for file in self.files)

    def digest(self) -> str:
        """64 hex over everything that MANIFEST.json is made of; another digest, another job."""
        parts: list[object] = [self.repo, self.commit, self.license, self.include, self.exclude]
        parts.append(self.manifest)
        parts.append([[file.path, file.size, file.expected] for file in self.files])
        text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


def load_spec(path: Path) -> Spec:
    """Read and check a spec file; "-" is standard input (another account's /dev/stdin is closed).

    Raises SpecError with every problem found.
    """
    try:
        data = json.loads(sys.stdin.read() if str(path) == "-" else path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise SpecError(f"{path}: cannot be read as JSON: {error}") from error
    if not isinstance(data, dict):
        raise SpecError(f"{path}: must be a map")
    problems = [f"{path}: {problem}" for problem in _problems(data)]
    if problems:
        raise SpecError("\n".join(problems))
    return _build(data)


def _problems(data: dict[str, Any]) -> list[str]:
    known = set(Spec.__dataclass_fields__)
    found = [f"{key}: unknown key" for key in sorted(set(data) - known)]
    found += [f"{key}: missing" for key in ("dir", "repo", "commit", "files") if key not in data]
    if found:
        return found
    if not isinstance(data["dir"], str) or not data["dir"].startswith("/"):
        found.append("dir: must be an absolute path")
    if not re.fullmatch(r"[0-9a-f]{40}", str(data["commit"])):
        found.append("commit: must be 40 hex digits")
    found += [f"{key}: must be text" for key in _TEXTS if not isinstance(data.get(key, ""), str)]
    found += [f"{key}: must be a list of texts" for key in _LISTS if not _texts(data.get(key, []))]
    if not isinstance(data.get("spread"), dict | None):
        found.append("spread: must be a map or null")
    if not isinstance(data["files"], list) or not data["files"]:
        return [*found, "files: must be a list with at least one file"]
    for index, item in enumerate(data["files"]):
        found.extend(f"files/{index}: {what}" for what in file_problems(item, OURS))
    names = [str(item.get("path")) for item in data["files"] if isinstance(item, dict)]
    if len(set(names)) != len(names):
        found.append("files: a path is listed twice")
    return found


def _texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _build(data: dict[str, Any]) -> Spec:
    files = (
        File(item["path"], item["size"], item.get("sha256"), item.get("git_sha1"))
        for item in data["files"]
    )
    return Spec(
        dir=Path(data["dir"]),
        repo=data["repo"],
        commit=data["commit"],
        files=tuple(sorted(files, key=lambda file: file.path)),
        endpoint=str(data.get("endpoint") or "https://huggingface.co").rstrip("/"),
        hub_python=data.get("hub_python", ""),
        license=data.get("license", ""),
        include=tuple(data.get("include", ())),
        exclude=tuple(data.get("exclude", ())),
        adopt_dirs=tuple(Path(name) for name in data.get("adopt_dirs", ())),
        token_file=Path(data["token_file"]) if data.get("token_file") else None,
        progress=Path(data["progress"]) if data.get("progress") else None,
        manifest=dict(data.get("manifest") or {}),
        stall_s=float(data.get("stall_s", STALL_S)),
        margin_bytes=int(data.get("margin_bytes", 0)),
        retry_wait_s=float(data.get("retry_wait_s", RETRY_WAIT_S)),
        plain=bool(data.get("plain", False)),
        held=data.get("held", ""),
        library=tuple(Path(name) for name in data.get("library", ())),
        library_copy=bool(data.get("library_copy", False)),
        spread=data.get("spread"),
    )
