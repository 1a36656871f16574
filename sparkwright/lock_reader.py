"""The lock file's text checked and turned into the values of sparkwright/artifacts.py."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Any, Final

from sparkwright.artifacts import FORMAT, NEEDS, Artifact, HubFile, Lock, Snapshot
from sparkwright.errors import Problems
from sparkwright.lock_images import IMAGE_ALSO, IMAGE_CHECKS, read_archive
from sparkwright.lock_wheels import WHEEL_ALSO, WHEEL_CHECKS, WHEELS_ALSO, read_checks
from sparkwright.yaml_reader import Check, Reader, Verdict, above_zero, not_blank, one_of
from sparkwright.yamlfile import read_map

MISSING: Final = "restore artifacts.lock.yaml from the project, then run: sparkwright lock"
# Fields of each kind beside those that it needs.
_ALSO: Final = {
    "file": ("version", "plain_name", "sha1_name"),
    "archive": (),
    "apt": ("version",),
    "debs": ("status", "size"),
    "wheels": WHEELS_ALSO,
    "wheel": WHEEL_ALSO,
    "image": IMAGE_ALSO,
}
_NUMBERS: Final = ("size", "build_number")


def read_lock(path: Path) -> Lock:
    """See `artifacts.load_lock`."""
    problems = Problems()
    values = read_map(path, problems, missing=MISSING)
    if values is None:
        problems.raise_if_any()
    top = Reader(path.name, "", values or {}, problems)
    top.take("format", int, check=_format)
    hub = top.take("hub", str, check=_url)
    artifacts = [_artifact(name, _map(top, f"artifacts/{name}", value))
                 for name, value in top.section("artifacts").items()]  # fmt: skip
    snapshots = [_snapshot(name, _map(top, f"snapshots/{name}", value))
                 for name, value in top.section("snapshots").items()]  # fmt: skip
    top.finish()
    problems.raise_if_any()
    return Lock(
        path=path,
        hub=hub.rstrip("/"),
        artifacts={item.name: item for item in artifacts if item is not None},
        snapshots={item.key: item for item in snapshots},
    )


def _map(top: Reader, place: str, value: object) -> Reader:
    return Reader(top.file, place, value, top.problems)


def _artifact(name: str, part: Reader) -> Artifact | None:
    kind = part.take("kind", str, check=one_of(*NEEDS))
    if not kind:
        return None
    allowed = (*NEEDS[kind], *_ALSO[kind], "source")
    found: dict[str, Any] = {}
    for key in allowed:
        if key == "packages":
            found[key] = _packages(part) if part.has(key) else None
        elif kind == "image" and key == "archive":
            found[key] = read_archive(part.section(key)) if part.has(key) else None
        elif key == "checks":
            found[key] = read_checks(part.section(key)) if part.has(key) else None
        elif key in _NUMBERS:
            found[key] = part.take(key, int, None, above_zero)
        else:
            found[key] = part.take(key, str, None, _CHECKS.get(key, not_blank))
    others = {key: f"{kind} has no {key}" for key in _CHECKS if key not in allowed}
    part.finish(others)
    _check_names(part, found)
    return Artifact(name, kind, **found)


def _packages(part: Reader) -> dict[str, str]:
    section = part.section("packages")
    found = {}
    for name, value in section.items():
        if isinstance(value, str) and re.fullmatch(r"[0-9][A-Za-z0-9.+:~-]*", value):
            found[name] = value
        else:
            section.fail(name, "must be an exact version", "read it with: apt-cache policy")
    if not section.items():
        part.fail("packages", "names no package")
    return found


def _check_names(part: Reader, found: dict[str, object]) -> None:
    """plain_name and sha1_name are two names of one file: both or none."""
    if bool(found.get("plain_name")) != bool(found.get("sha1_name")):
        part.fail("", "plain_name and sha1_name go together", "add the other one")


def _snapshot(name: str, part: Reader) -> Snapshot:
    repo = part.take("repo", str, check=_repo)
    revision = part.take("revision", str, check=not_blank)
    commit = part.take("commit", str, None, _hex(40))
    license_name = part.take("license", str, None, not_blank)
    files = _files(part)
    part.finish()
    if repo and revision and name != f"{repo}@{revision}":
        part.fail("", f"is named otherwise than its {repo}@{revision}", "rename it")
    if re.fullmatch(r"[0-9a-f]{40}", revision) and commit not in (None, revision):
        part.fail("commit", "differs from the revision, which is a commit itself", "remove it")
    if files and not commit:
        part.fail("", "has files but no commit", "remove files, then run: sparkwright lock")
    return Snapshot(repo, revision, commit, license_name, files)


def _files(part: Reader) -> tuple[HubFile, ...]:
    found: dict[str, HubFile] = {}
    for place, value in part.entries("files"):
        item = _map(part, f"{part.place}/{place}", value)
        file = HubFile(
            path=item.take("path", str, check=_path),
            size=item.take("size", int, check=_not_negative),
            sha256=item.take("sha256", str, None, _hex(64)),
            git_sha1=item.take("git_sha1", str, None, _hex(40)),
        )
        item.finish()
        given = item.has("sha256") + item.has("git_sha1")
        if item.usable and given != 1:
            what = "has both sha256 and git_sha1" if given else "has no sha256 or git_sha1"
            item.fail("", what, "give one")
        if file.path and file.path in found:
            item.fail("path", f"{file.path} is listed twice", "keep one")
        found[file.path] = file
    return tuple(found[path] for path in sorted(found))


def _format(value: int) -> Verdict:
    if value == FORMAT:
        return None
    return f"is {value}, this version reads {FORMAT}", "use the sparkwright that wrote the lock"


def _hex(length: int) -> Check:
    def check(value: str) -> Verdict:
        if re.fullmatch(rf"[0-9a-f]{{{length}}}", value):
            return None
        hint = "remove it, then run: sparkwright lock"
        return f'must be {length} lower-case hex digits, not "{value}"', hint

    return check


def _fingerprint(value: str) -> Verdict:
    if re.fullmatch(r"[0-9A-F]{40}", value):
        return None
    return f'must be 40 upper-case hex digits, not "{value}"', "write it without spaces"


def _url(value: str) -> Verdict:
    if re.fullmatch(r"https?://[^/\s@]+(/\S*)?", value):
        return None
    return f'must be an http(s) address without a password, not "{value}"', ""


def _repo(value: str) -> Verdict:
    if re.fullmatch(r"[A-Za-z0-9._-]+/[A-Za-z0-9._-]+", value):
        return None
    return f'must be owner/name, not "{value}"', ""


def _path(value: str) -> Verdict:
    pure = PurePosixPath(value)
    if value and not pure.is_absolute() and ".." not in pure.parts and str(pure) == value:
        return None
    return f'must be a plain relative path, not "{value}"', ""


def _not_negative(value: int) -> Verdict:
    return None if value >= 0 else (f"must not be negative, not {value}", "")


def _name(value: str) -> Verdict:
    return None if re.fullmatch(r"[A-Za-z0-9._-]+", value) else (f'"{value}" is no file name', "")


_CHECKS: Final[dict[str, Check]] = {
    "url": _url,
    "sha256": _hex(64),
    "commit": _hex(40),
    "fingerprint": _fingerprint,
    "listing": _path,
    "status": _path,
    "requirements": _path,
    "plain_name": _name,
    "sha1_name": _hex(40),
    **IMAGE_CHECKS,
    **WHEEL_CHECKS,
}
