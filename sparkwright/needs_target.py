"""The kind of machine that a bundle is for: architecture, release, and what follows from both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from packaging.tags import Tag, compatible_tags, cpython_tags

from sparkwright.errors import Problems, nearest

# python3 and libc6 of each release, from its package lists.
RELEASES: Final[Mapping[str, tuple[tuple[int, int], int]]] = {
    "ubuntu 22.04": ((3, 10), 35),
    "ubuntu 24.04": ((3, 12), 39),  # DGX OS 7
    "debian 12": ((3, 11), 36),
    "debian 13": ((3, 13), 41),
}
# `uname -m` -> dpkg's name (dpkg's cputable).
DPKG: Final = {"aarch64": "arm64", "x86_64": "amd64"}
OLDEST_GLIBC: Final = 17  # manylinux2014; what is older exists on x86_64 alone
FIRST_GLIBC: Final = 5  # manylinux1 (PEP 513)


@dataclass(frozen=True)
class Target:
    """One kind of machine.

    + arch: as `uname -m` says; os: ID and VERSION_ID of os-release
    + python: of its python3; glibc: minor version of its C library
    """

    arch: str
    os: str
    python: tuple[int, int]
    glibc: int

    @property
    def dpkg(self) -> str:
        """The architecture in Debian's words."""
        return DPKG[self.arch]

    @property
    def debs(self) -> str:
        """Name of the artifact that lists its packages."""
        return f"debs-{self.os.replace(' ', '-')}-{self.dpkg}"

    @property
    def platform(self) -> str:
        """The platform in uv's words."""
        return f"{self.arch}-manylinux_2_{self.glibc}"

    def __str__(self) -> str:
        return f"{self.os} on {self.arch}"

    def as_data(self) -> dict[str, str]:
        """For a bundle's manifest."""
        return {
            "arch": self.arch,
            "os": self.os,
            "python": ".".join(map(str, self.python)),
            "glibc": f"2.{self.glibc}",
        }

    def tags(self, python: tuple[int, int]) -> dict[Tag, int]:
        """Wheel tags that it takes, with their rank: the order in which pip and uv choose.

        A bare linux_ tag is taken by pip on the machine itself, so it is among them.
        """
        oldest = FIRST_GLIBC if self.arch == "x86_64" else OLDEST_GLIBC
        levels = range(self.glibc, oldest - 1, -1)
        platforms = [f"manylinux_2_{minor}_{self.arch}" for minor in levels]
        names = ["2014", *(["2010", "1"] if self.arch == "x86_64" else [])]
        platforms += [f"manylinux{name}_{self.arch}" for name in names]
        platforms.append(f"linux_{self.arch}")
        abi = "cp" + "".join(map(str, python))
        every = [
            *cpython_tags(python, [abi], platforms),
            *compatible_tags(python, abi, platforms),
        ]
        return {tag: rank for rank, tag in reversed(list(enumerate(every)))}

    def markers(self, python: tuple[int, int]) -> dict[str, str]:
        """The environment in which requirements' markers are judged (PEP 508)."""
        version = ".".join(map(str, python))
        return {
            "implementation_name": "cpython",
            "implementation_version": f"{version}.0",
            "os_name": "posix",
            "platform_machine": self.arch,
            "platform_python_implementation": "CPython",
            "platform_release": "",
            "platform_system": "Linux",
            "platform_version": "",
            "python_full_version": f"{version}.0",
            "python_version": version,
            "sys_platform": "linux",
            "extra": "",
        }


def target_of(data: Mapping[str, Any], name: str, problems: Problems) -> Target | None:
    """The kind of one machine, from its settings; None with a problem when it is not known."""
    arch, release = str(data["arch"]), str(data["os_releases"][0])
    where = f"sparks.yaml: sparks/{name}/settings"
    if arch not in DPKG:
        problems.add(f"{where}/arch", f"{arch} is not known here", nearest(arch, DPKG))
    if release not in RELEASES:
        what = f"{release} is not known here; its first entry is what a bundle is made for"
        problems.add(f"{where}/os_releases", what, nearest(release, RELEASES))
    if arch not in DPKG or release not in RELEASES:
        return None
    return Target(arch, release, *RELEASES[release])
