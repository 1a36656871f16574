"""The lab's Debian archive: exactly what the deploy installs beyond the base root."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Sequence
from pathlib import Path

from . import baseroot
from .host import cache_dir, made_beside, run, say
from .signing import Repository, make_key, sign
from .sources import debian_lines

# build-essential … pkg-config: stack.md 2.1, what llama.cpp's build needs; python3-venv and
# python3-dev: the hub client's venv; ccache: later labs build in a fraction of the time; libnuma1:
# vLLM's CPU build.
PACKAGES = (
    "build-essential", "cmake", "ninja-build", "git", "libssl-dev", "pkg-config", "python3-venv",
    "python3-dev", "ccache", "curl", "libnuma1",
)  # fmt: skip


def prepare(base: Path, suite: str = "bookworm") -> Repository:
    """Download the packages and their dependencies and sign an index of them.

    About 100 packages and 110 MB. Hold the prepare lock.
    """
    key = make_key(cache_dir() / "keys", "debian")
    text = json.dumps([baseroot.digest(suite), PACKAGES, key.fingerprint])
    name = hashlib.sha256(text.encode()).hexdigest()[:12]
    target = cache_dir() / "apt-debian" / name
    if not target.exists():
        say("Debian packages for the machines (about a minute, once)")
        with made_beside(target) as folder:
            download(base, suite, folder, PACKAGES)
            sign(folder, key, Origin="sparkwright-lab", Label="sparkwright-lab")
    return Repository(target, key.public, key.fingerprint)


def download(base: Path, suite: str, folder: Path, packages: Sequence[str]) -> None:
    """Let the host's apt fetch what the base root's dpkg status lacks, touching only `folder`."""
    work = folder / "apt"
    for name in ("state/lists/partial", "cache/archives/partial", "log"):
        (work / name).mkdir(parents=True)
    shutil.copy(base / "var/lib/dpkg/status", work / "status")
    (work / "sources.list").write_text("\n".join(debian_lines(suite)) + "\n")
    (work / "apt.conf").write_text(_config(work))
    env = {"APT_CONFIG": str(work / "apt.conf"), "DEBIAN_FRONTEND": "noninteractive"}
    run("apt-get", "--quiet=2", "update", env=env)
    only = ("--yes", "--download-only", "--no-install-recommends")
    run("apt-get", "--quiet=2", "install", *only, *packages, env=env)
    for deb in sorted((work / "cache/archives").glob("*.deb")):
        deb.rename(folder / deb.name)
    shutil.rmtree(work)


def _config(work: Path) -> str:
    """An apt configuration that reads and writes nothing of the host but its proxy settings."""
    return f"""
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear DPkg::Post-Invoke;
Dir::State "{work}/state";
Dir::State::status "{work}/status";
Dir::Cache "{work}/cache";
Dir::Log "{work}/log";
Dir::Etc::sourcelist "{work}/sources.list";
Dir::Etc::sourceparts "-";
Dir::Etc::preferences "-";
Dir::Etc::preferencesparts "-";
Acquire::Languages "none";
APT::Sandbox::User "root";
"""
