"""The root file system that every lab machine is a copy-on-write layer over."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from .host import cache_dir, made_beside, run, say
from .sources import debian_lines

# systemd-sysv to sshd: what LAB machines need to be machines. python3, sudo, curl, rsync, gpg,
# procps, openssl, CA certificates, netplan and ping: what Ubuntu 24.04 (DGX OS) has on a fresh
# Spark as well. netplan's backend is systemd-networkd here and NetworkManager there; without a
# file of netplan's it does not run, and the lab itself configures eth0.
PACKAGES = (
    "systemd", "systemd-sysv", "dbus", "libpam-systemd", "openssh-server", "sudo", "iproute2",
    "procps", "python3", "ca-certificates", "curl", "rsync", "gpg", "openssl", "netplan.io",
    "iputils-ping",
)  # fmt: skip
USERS = {"spark": "NOPASSWD:ALL", "sparkpw": "ALL"}
PASSWORD = "lab-password"
FILES = Path(__file__).with_name("machine_files")
# Timers that would hold apt's lock or write at a moment of their own; what serves no test.
MASKED = (
    "apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "fstrim.timer",
    "e2scrub_all.timer", "getty@.service", "console-getty.service",
    "systemd-modules-load.service", "systemd-binfmt.service", "systemd-timesyncd.service",
)  # fmt: skip
SETUP = """
set -eu
printf 'LANG=C.UTF-8\\n' >/etc/default/locale
ln -sf /usr/share/zoneinfo/Etc/UTC /etc/localtime
rm -f /etc/machine-id /var/lib/dbus/machine-id /etc/hostname /etc/resolv.conf
rm -f /etc/ssh/ssh_host_* /etc/apt/sources.list /etc/apt/sources.list.d/*
rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin
mkdir -p /var/lib/apt/lists/partial
: >/etc/resolv.conf
systemctl enable --quiet ssh.service private-sysctl.service
"""


def recipe(suite: str) -> dict[str, object]:
    """All inputs of the base root, whose digest names its folder."""
    files = {path.name: path.read_text() for path in sorted(FILES.iterdir())}
    setup = [SETUP, dict(USERS), PASSWORD, list(MASKED)]
    return {"suite": suite, "packages": list(PACKAGES), "files": files, "setup": setup}


def digest(suite: str) -> str:
    """12 hex digits over the recipe."""
    text = json.dumps(recipe(suite), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def prepare(suite: str = "bookworm") -> Path:
    """Make the base root unless it is there, and return it. Hold the prepare lock.

    About 25 s and 290 MB on 2 cores (measured on the development machine).
    """
    target = cache_dir() / "base" / f"{suite}-{digest(suite)}"
    if target.exists():
        return target
    say(f"base root: Debian {suite} (about half a minute, once)")
    lines = "\n".join(debian_lines(suite)) + "\n"
    with made_beside(target) as root:
        # "-": the sources come from standard input, so that each keeps its own pocket and key.
        run(
            "mmdebstrap", "--quiet", "--mode=root", "--variant=minbase",
            f"--include={','.join(PACKAGES)}", "--aptopt=Acquire::Languages \"none\"",
            suite, root, "-", stdin=lines,
        )  # fmt: skip
        _configure(root)
    return target


def _configure(root: Path) -> None:
    library = root / "usr/local/lib/sparkwright-lab"
    library.mkdir(parents=True)
    (library / "private-sysctl").write_bytes((FILES / "private-sysctl").read_bytes())
    (library / "private-sysctl").chmod(0o755)
    udevadm = root / "usr/local/sbin/udevadm"
    udevadm.write_bytes((FILES / "fake_udevadm").read_bytes())
    udevadm.chmod(0o755)
    unit = root / "etc/systemd/system/private-sysctl.service"
    unit.write_bytes((FILES / "private-sysctl.service").read_bytes())
    for name in MASKED:
        (root / "etc/systemd/system" / name).symlink_to("/dev/null")
    for user, rule in USERS.items():
        run("chroot", root, "useradd", "--create-home", "--shell", "/bin/bash", user)
        run("chroot", root, "chpasswd", stdin=f"{user}:{PASSWORD}\n")
        sudoers = root / "etc/sudoers.d" / user
        sudoers.write_text(f"{user} ALL=(ALL:ALL) {rule}\n")
        sudoers.chmod(0o440)
    run("chroot", root, "sh", "-c", SETUP)
