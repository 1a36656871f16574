"""Which files of a bundle one machine needs, and what is wrong with the bundle for it. Pure but
for the laptop's own files.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sparkwright.bundle_inputs import read_debs
from sparkwright.bundle_layout import Entry, Manifest, read_manifest
from sparkwright.bundle_verify_wheels import wheel_problems
from sparkwright.bundle_wheels import pins_of
from sparkwright.deb_index import Deb
from sparkwright.errors import Problems, SparkwrightError
from sparkwright.needs import Needs, needs_of
from sparkwright.site import upstream_lock
from sparkwright.sources import lock_sha256

FILL = "fill it: sparkwright bundle"
_NAMES = re.compile(r"([a-z0-9][a-z0-9+.-]+)(?::[a-z0-9-]+)?\s*(?:\([^)]*\))?")


def files_of(data: Mapping[str, Any]) -> tuple[Entry, ...]:
    """What a machine needs of the bundle. Raises SparkwrightError with every problem."""
    return _files(_key(data))


def problems_of(data: Mapping[str, Any]) -> list[str]:
    """Why the bundle on the laptop cannot be pushed to this machine, a line each."""
    try:
        _files(_key(data))
    except SparkwrightError as error:
        return str(error).splitlines()
    return []


def _key(data: Mapping[str, Any]) -> str:
    """A machine's data without what makes no difference, so that equal machines are judged once."""
    own = {k: v for k, v in data.items() if k[0] != "_" and k.partition("_")[0] not in ("ssh",)}
    return json.dumps({**own, "peers": []}, sort_keys=True, default=str)


@functools.cache
def _files(key: str) -> tuple[Entry, ...]:
    data = json.loads(key)
    top = Path(data["artifacts_path"])
    plain = {**data, "artifacts_from": "upstream"}  # needs are told with upstream's addresses
    problems = Problems()
    manifest = _manifest(top, plain, problems)
    needs = needs_of({"the machine": plain}, problems) if manifest else None
    found: tuple[Entry, ...] = ()
    if manifest and needs:
        _platform(top, manifest, needs, problems)
        debs, _ = read_debs(upstream_lock(plain), needs, problems)
        found = select(manifest, needs, debs)
        _complete(top, manifest, needs, found, problems)
        _signed(top, needs, debs, Path(str(data.get("artifacts_key", ""))), problems)
    problems.raise_if_any()
    return found


def _manifest(top: Path, data: Mapping[str, Any], problems: Problems) -> Manifest | None:
    where = "sparks.yaml: artifacts/path"
    if not top.is_dir():
        problems.add(where, f"no directory {top}", "is the disk mounted? The path is this laptop's")
        return None
    found = read_manifest(top)
    if found is None:
        problems.add(where, f"{top} holds no finished bundle (no MANIFEST.json)", FILL)
        return None
    lock = upstream_lock(data).path
    own = lock_sha256(data)
    if found.lock_sha256 != own:
        what = f"{top} was made from another {lock.name} ({found.lock_sha256[:12]}, "
        problems.add(where, f"{what}the fleet's is {own[:12]})", "fill it again with this lock, "
                     "or use the artifacts.lock.yaml that lies in it")  # fmt: skip
    return found


def _platform(top: Path, manifest: Manifest, needs: Needs, problems: Problems) -> None:
    want = needs.target.as_data()
    for name in sorted(want):
        have = manifest.made_for.get(name)
        if have != want[name]:
            problems.add(str(top), f"was made for {name} {have}, the machine has {want[name]}",
                         "make one for these machines: sparkwright bundle")  # fmt: skip


def select(manifest: Manifest, needs: Needs, debs: Sequence[Deb]) -> tuple[Entry, ...]:
    """The files of a bundle for one machine, and no others."""
    paths = {item.path for item in needs.files}
    paths |= {f"images/{item.name}.tar" for item in needs.images}
    paths |= {f"apt/{file}" for file in deb_files(needs.packages, debs)}
    paths |= {f"apt/{name}" for name in ("Packages", "Release", "InRelease", "key.gpg")}
    pins = [pin for wheels in needs.sets for pin in pins_of(wheels, needs.target)]
    hashes = {sha256 for pin in pins for sha256 in pin.hashes}
    pages = {f"simple/{pin.project}/index.html" for pin in pins} | {"simple/index.html"}
    return tuple(
        entry
        for entry in manifest.files
        if entry.path in paths
        or entry.path in pages
        or (entry.path.startswith("wheels/") and entry.sha256 in hashes)
    )


def deb_files(words: Iterable[str], debs: Sequence[Deb]) -> set[str]:
    """Package files that these packages can lead to: every alternative counts."""
    by_name: dict[str, list[Deb]] = {}
    for deb in debs:
        provided = _NAMES.findall(deb.fields.get("Provides", ""))
        for name in (deb.package, *provided):
            by_name.setdefault(name, []).append(deb)
    waiting, seen, found = [word.partition("=")[0] for word in words], set[str](), set[str]()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        for deb in by_name.get(name, ()):
            found.add(deb.file)
            wants = ",".join(deb.fields.get(key, "") for key in ("Pre-Depends", "Depends"))
            waiting += _NAMES.findall(re.sub(r"\([^)]*\)", "", wants))
    return found


def _complete(
    top: Path, manifest: Manifest, needs: Needs, found: Sequence[Entry], problems: Problems
) -> None:
    """Everything is in the manifest, and on the laptop's disk with the right size."""
    listed = {entry.path for entry in manifest.files}
    named = [(item.path, item.artifact) for item in needs.files]
    named += [(f"images/{item.name}.tar", f"artifacts/{item.name}") for item in needs.images]
    for path, artifact in named:
        if path not in listed:
            problems.add(f"{top}/{path} ({artifact})", "is not in the bundle", FILL)
    wheels = {entry.sha256: entry.path.removeprefix("wheels/") for entry in manifest.files
              if entry.path.startswith("wheels/")}  # fmt: skip
    for path, what, artifact in wheel_problems(needs, wheels, list(wheels.values())):
        problems.add(f"{top}/{path} ({artifact})", what, FILL)
    for entry in found:
        place = top / entry.path
        if not place.is_file():
            problems.add(str(place), "is missing", FILL)
        elif (size := place.stat().st_size) != entry.size:
            problems.add(str(place), f"has {size} bytes, not {entry.size}", FILL)


def _signed(top: Path, needs: Needs, debs: Sequence[Deb], key: Path, problems: Problems) -> None:
    """The packages' index is signed by the fleet's key; without one whichever lies beside it."""
    from sparkwright.bundle_apt import wrong  # only now: it loads an OpenPGP library
    from sparkwright.bundle_key import fingerprint_of

    try:
        fingerprint = fingerprint_of(key.read_bytes()) if key.is_file() else None
    except ValueError as error:
        problems.add(
            str(key),
            f"is no key ({str(error).splitlines()[0]})",
            "copy it from where the bundle was made",
        )
        return
    for name, what in wrong(top / "apt", debs, needs.target, fingerprint):
        problems.add(f"{top}/apt/{name}", what, FILL)
