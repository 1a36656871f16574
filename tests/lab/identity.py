"""The files that make one copy of the base root a machine of its own."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from .baseroot import USERS
from .keys import Keys

APT_KEY = "usr/share/keyrings/sparkwright-lab.gpg"


def _write(path: Path, text: str, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


def write(root: Path, run_id: str, name: str, address: str, keys: Keys) -> None:
    """Name, machine id, host key and who may log in."""
    _write(root / "etc/hostname", f"{name}\n")
    _write(root / "etc/hosts", f"127.0.0.1 localhost\n{address} {name}\n")
    machine_id = hashlib.sha256(f"{run_id}/{name}".encode()).hexdigest()[:32]
    _write(root / "etc/machine-id", f"{machine_id}\n", 0o444)
    key = keys.host_key(name, address)
    _write(root / "etc/ssh/ssh_host_ed25519_key", key.read_text(), 0o600)
    _write(root / "etc/ssh/ssh_host_ed25519_key.pub", key.with_suffix(".pub").read_text())
    for user in USERS:
        folder = root / "home" / user / ".ssh"
        owner = folder.parent.stat()
        _write(folder / "authorized_keys", keys.authorized(), 0o600)
        folder.chmod(0o700)
        for path in (folder, folder / "authorized_keys"):
            os.chown(path, owner.st_uid, owner.st_gid)


def write_upstream(root: Path, upstream: str, host: str, apt_key: bytes) -> None:
    """Point apt, pip and uv at the lab's upstream, and the compiler cache at the shared folder.

    + upstream: base URL of this run; it differs from run to run, so it is written here
    """
    key = root / APT_KEY
    key.write_bytes(apt_key)
    source = f"Types: deb\nURIs: {upstream}/apt/debian\nSuites: ./\nSigned-By: /{APT_KEY}\n"
    _write(root / "etc/apt/sources.list.d/lab.sources", source)
    _write(
        root / "etc/pip.conf",
        f"[global]\nindex-url = {upstream}/simple\ntrusted-host = {host}\n"
        "disable-pip-version-check = true\n",
    )
    # uv reads no pip.conf.
    _write(root / "etc/uv/uv.toml", f'[[index]]\nurl = "{upstream}/simple"\ndefault = true\n')
    # Any user of any machine may write the shared cache, so its files stay open to all.
    _write(root / "etc/ccache.conf", "cache_dir = /var/cache/ccache\numask = 000\n")
