"""A layer over the base root with Debian's real docker engine, for machines that run containers."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

from . import baseroot, debian_repo
from .host import cache_dir, made_beside, run, say

# docker.io recommends iptables and works without only when it may not make a bridge.
PACKAGES = ("docker.io", "iptables")
# The machine's disk is a folder of the host: overlay2 needs a file system that is no overlay.
DATA = "/var/lib/docker"
CONFIG = "etc/docker/daemon.json"


def prepare(base: Path, suite: str = "bookworm") -> Path:
    """Make the layer unless it is there, and return its folder. Hold the prepare lock.

    It lies over the base root in an overlay mount, and only machines that ask for it pay for it.
    """
    text = json.dumps([baseroot.digest(suite), PACKAGES])
    target = cache_dir() / "docker" / hashlib.sha256(text.encode()).hexdigest()[:12]
    if not target.exists():
        say("docker for the machines (about a minute, once)")
        with made_beside(target) as folder:
            _install(base, suite, folder)
    return target / "upper"


# In mounts of its own, which end with it, whatever ends it. No service starts: without systemd
# as PID 1 the packages' scripts only enable them.
INSTALL = """
set -eu
mount -t overlay sparkwright-lab -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" "$2/root"
mount --bind "$2/debs" "$2/root/mnt"
chroot "$2/root" dpkg --install $(cd "$2/debs" && ls | sed s,^,/mnt/,)
"""


def _install(base: Path, suite: str, folder: Path) -> None:
    for name in ("debs", "root", "upper", "work"):
        (folder / name).mkdir()
    debian_repo.download(base, suite, folder / "debs", PACKAGES)
    env = {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
    run("unshare", "--mount", "sh", "-c", INSTALL, "sh", base, folder, env=env)
    for name in ("debs", "root", "work"):
        shutil.rmtree(folder / name)


def furnish(root: Path, registry: str) -> None:
    """Let a machine's engine pull over plain HTTP from the lab's registry.

    + registry: host:port; it differs from run to run
    """
    path = root / CONFIG
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"insecure-registries": [registry]}) + "\n")
