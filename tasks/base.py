"""
Base: our programs, the service account, directories, journal, kernel settings, packages.

Leaves: {prefix}/lib, user llm, {data_dir}, /etc/sysctl.d/60-sparkwright.conf, a capped journal
Needs:  tasks.preflight
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyinfra import host
from pyinfra.api import deploy

from sparkwright.gpu_clock import ClockCap
from sparkwright.leftovers import NoLeftovers
from sparkwright.operations import Batch, ensure
from sparkwright.paths import RUN, machine_files
from sparkwright.resources import Directory, File, Resource
from sparkwright.site import UNIT_DIR
from sparkwright.sources import source_of
from sparkwright.sources_apt import apt_files
from sparkwright.system import Packages, Restarted, Sysctl, User

# The machine keeps 16 GiB of swap and should not use it for weights (DGX OS ships 60; field
# reports settle on 10). compaction and hugepages stay as DGX OS has them.
SYSCTL = {"vm.swappiness": "10"}
SYSCTL_FILE = "/etc/sysctl.d/60-sparkwright.conf"
JOURNAL_FILE = "/etc/systemd/journald.conf.d/60-sparkwright.conf"
JOURNAL = "# Managed by sparkwright\n[Journal]\nStorage=persistent\nSystemMaxUse=2G\n"
# Where we write files beside their places, before they are renamed.
WRITTEN = (
    "/opt/sparkwright",
    "/etc/apt",
    "/etc/sysctl.d",
    "/etc/systemd/journald.conf.d",
    UNIT_DIR,
    "/etc/apt/preferences.d",
    "/etc/apt/sources.list.d",
    "/usr/share/keyrings",
    "/var/lib/sparkwright",
    RUN,
)
# build-essential … libssl-dev: llama.cpp's build (its docs/build.md); gpg: the CUDA key;
# python3-venv: the hub client. From the machine's own sources or a bundle.
PACKAGES = (
    "build-essential",
    "cmake",
    "ninja-build",
    "libssl-dev",
    "pkg-config",
    "python3-venv",
    "gpg",
    "ca-certificates",
)


@deploy("base")
def install(data: Mapping[str, Any]) -> None:
    """Everything that later tasks stand on."""
    wanted = parts(data)
    batch = Batch(resource for resources in wanted.values() for resource in resources)
    for name, resources in host.loop(wanted.items()):
        ensure(name=name, resources=resources, batch=batch)


def parts(data: Mapping[str, Any]) -> dict[str, Sequence[Resource]]:
    """The operations' names with what each makes sure of, in order."""
    user, cap = data["service_user"], ClockCap(data["gpu_clock_max_mhz"])
    account = User(user, data["data_dir"], ("video", "render"))
    places = directories(data, user)
    leftovers = NoLeftovers((*WRITTEN, data["etc_dir"]))
    packages = dict.fromkeys((*PACKAGES, *data["packages_extra"]))
    return {
        "Put our programs on the machine": programs(),
        "Create the service account and directories": [account, *places, leftovers],
        "Keep the journal, with a limit": journal(),
        "Set kernel values": [File(SYSCTL_FILE, sysctl_text()), Sysctl(SYSCTL), cap],
        "Install packages": [*apt_files(data), Packages(packages, source_of(data).only())],
    }


def programs() -> list[Resource]:
    """files/ as it is, below directories that only root writes."""
    places = sorted({path.rsplit("/", 1)[0] for path, _ in machine_files()})
    parents = sorted({"/opt/sparkwright", *places})
    return [*map(Directory, parents), *[File(path, text) for path, text in machine_files()]]


def directories(data: Mapping[str, Any], user: str) -> list[Resource]:
    """Where things live; only caches and builds belong to the service account."""
    return [
        Directory(data["prefix"]),
        Directory(f"{data['prefix']}/src"),
        Directory(f"{data['prefix']}/llama.cpp"),
        Directory(data["data_dir"]),
        Directory(f"{data['data_dir']}/weights"),
        Directory(f"{data['data_dir']}/cache", user, user, "0750"),
        Directory(f"{data['data_dir']}/build"),
        Directory(data["etc_dir"], "root", user, "0750"),
        Directory("/var/lib/sparkwright"),
    ]


def journal() -> list[Resource]:
    """A persistent journal: after a wedge `journalctl -b -1` is the only evidence."""
    config = File(JOURNAL_FILE, JOURNAL)
    return [
        Directory("/var/log/journal", "root", "systemd-journal", "2755"),
        Directory("/etc/systemd/journald.conf.d"),
        config,
        Restarted("systemd-journald.service", config),
    ]


def sysctl_text() -> str:
    """The file that sets the same values at boot."""
    lines = [f"{key} = {value}" for key, value in sorted(SYSCTL.items())]
    return "# Managed by sparkwright\n" + "\n".join(lines) + "\n"
