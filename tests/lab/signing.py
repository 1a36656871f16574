"""Signed flat apt repositories, with a key per repository that is made once."""

from __future__ import annotations

import gzip
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .host import run


@dataclass(frozen=True)
class Repository:
    """A flat repository folder, ready to be served.

    + key: public key, binary, as `Signed-By` and a keyring package want it
    + fingerprint: 40 hex digits
    """

    folder: Path
    key: Path
    fingerprint: str


@dataclass(frozen=True)
class Key:
    """A signing key of the lab; it protects nothing outside the lab."""

    secret: Path
    public: Path
    fingerprint: str


@contextmanager
def _gnupg_home() -> Iterator[dict[str, str]]:
    """A short-lived home: its path stays below the length of a socket's, its agent ends."""
    home = Path(tempfile.mkdtemp(prefix="swl-gpg-"))
    env = {"GNUPGHOME": str(home)}
    try:
        yield env
    finally:
        run("gpgconf", "--kill", "all", env=env)
        shutil.rmtree(home)


def make_key(folder: Path, name: str) -> Key:
    """Make the key `name` unless it is there. Hold the prepare lock."""
    key = Key(folder / f"{name}.secret", folder / f"{name}.gpg", "")
    if not key.public.exists():
        folder.mkdir(mode=0o700, exist_ok=True)
        with _gnupg_home() as env:
            user = f"sparkwright lab {name} <lab@localhost>"
            quick = ("--quick-generate-key", user, "rsa3072", "sign", "never")
            run("gpg", "--batch", "--passphrase", "", *quick, env=env)
            run("gpg", "--batch", "--output", key.secret, "--export-secret-keys", env=env)
            run("gpg", "--batch", "--output", key.public, "--export", env=env)
    lines = run("gpg", "--batch", "--with-colons", "--show-keys", key.public).stdout.splitlines()
    prints = [line.split(":")[9] for line in lines if line.startswith("fpr:")]
    return Key(key.secret, key.public, prints[0])


def sign(folder: Path, key: Key, **fields: str) -> None:
    """Write Packages, Release and InRelease for the packages in a folder.

    + fields: of the Release file, such as Origin and Label, by which apt's pins choose
    """
    index = run("apt-ftparchive", "packages", ".", cwd=folder).stdout
    (folder / "Packages").write_text(index)
    (folder / "Packages.gz").write_bytes(gzip.compress(index.encode(), mtime=0))
    options = [f"APT::FTPArchive::Release::{name}={value}" for name, value in fields.items()]
    words = [word for option in options for word in ("-o", option)]
    release = run("apt-ftparchive", *words, "release", ".", cwd=folder).stdout
    (folder / "Release").write_text(release)
    with _gnupg_home() as env:
        run("gpg", "--batch", "--quiet", "--import", key.secret, env=env)
        name = ("--local-user", key.fingerprint, "--output", "InRelease")
        run("gpg", "--batch", "--clearsign", *name, "Release", env=env, cwd=folder)
    for path in folder.iterdir():
        path.chmod(0o644)
