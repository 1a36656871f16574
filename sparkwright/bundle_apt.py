"""A bundle's apt repository: flat, written from the lock's listing, signed by the bundle's key."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from sparkwright.bundle_key import Key, fingerprint_of, signed_text
from sparkwright.bundle_layout import replace_text
from sparkwright.deb_index import KEPT, Deb, render
from sparkwright.needs_target import Target

PACKAGES, RELEASE, SIGNED, PUBLIC = "Packages", "Release", "InRelease", "key.gpg"
FILES: Final = (PACKAGES, RELEASE, SIGNED, PUBLIC)
FIELDS: Final = tuple(key for key in KEPT if key != "Url")


def packages_text(debs: Sequence[Deb]) -> str:
    """The repository's index: a paragraph for each package, as upstream's index had it."""
    return render(({**deb.fields, "Filename": f"./{deb.file}"} for deb in debs), FIELDS)


def release_text(packages: str, target: Target, date: datetime) -> str:
    """The file that is signed. No Valid-Until: a bundle may travel for long."""
    data = packages.encode()
    return (
        "Origin: sparkwright\n"
        "Label: sparkwright bundle\n"
        f"Date: {date:%a, %d %b %Y %H:%M:%S} UTC\n"
        f"Architectures: {target.dpkg}\n"
        f"Description: packages for {target}\n"
        f"SHA256:\n {hashlib.sha256(data).hexdigest()} {len(data)} {PACKAGES}\n"
    )


def write_repository(folder: Path, debs: Sequence[Deb], target: Target, key: Key) -> None:
    """Index and signature, written anew only when they differ: an old date is no difference."""
    folder.mkdir(parents=True, exist_ok=True)
    packages = packages_text(debs)
    if not wrong(folder, debs, target, key.fingerprint):
        return
    release = release_text(packages, target, datetime.now(UTC))
    replace_text(folder / PUBLIC, key.public)
    replace_text(folder / PACKAGES, packages)
    replace_text(folder / RELEASE, release)
    replace_text(folder / SIGNED, key.clearsign(release))


def wrong(
    folder: Path, debs: Sequence[Deb], target: Target, fingerprint: str | None
) -> list[tuple[str, str]]:
    """What is wrong with index and signature: (file, phrase).

    + fingerprint: of the key that must have signed it; None: whichever lies beside
    """
    found = []
    texts: dict[str, bytes] = {}
    for name in FILES:
        try:
            texts[name] = (folder / name).read_bytes()
        except FileNotFoundError:
            found.append((name, "is missing"))
    if found:
        return found
    packages = packages_text(debs)
    if texts[PACKAGES].decode(errors="replace") != packages:
        found.append((PACKAGES, "lists other packages than the lock"))
    return found + _signature(texts, packages, target, fingerprint)


def _signature(
    texts: dict[str, bytes], packages: str, target: Target, fingerprint: str | None
) -> list[tuple[str, str]]:
    try:
        have = fingerprint_of(texts[PUBLIC])
    except ValueError as error:
        return [(PUBLIC, f"is no key ({error})")]
    if fingerprint and have != fingerprint:
        return [(PUBLIC, f"is the key {have}, this fleet's is {fingerprint}")]
    try:
        told = signed_text(texts[SIGNED], texts[PUBLIC])
    except ValueError as error:
        return [(SIGNED, f"is not signed by {have} ({error})")]
    date = next((line for line in told.splitlines() if line.startswith("Date: ")), "")
    wanted = release_text(packages, target, datetime.now(UTC)).splitlines()
    wanted = [date if line.startswith("Date: ") else line for line in wanted]
    if told.splitlines() != wanted:
        return [(SIGNED, "vouches for another index")]
    if texts[RELEASE].decode(errors="replace").splitlines() != wanted:
        return [(RELEASE, "is not what InRelease vouches for")]
    return []
