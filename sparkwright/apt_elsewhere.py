"""This computer's apt as the resolver for another machine: its own root, nothing of this one's.

Neither root nor the same architecture is needed (apt.conf(5), measured for arm64 on amd64).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sparkwright.errors import SparkwrightError

# What of this computer's own configuration stays: how it reaches the network.
_NETWORK: Final = re.compile(r'^Acquire::(http|https|ftp|Retries)\b.*";$')
_DONE: Final = re.compile(r"^(Inst|Remv) (\S+)(?: \[[^]]*\])?(?: \((\S+) )?")


def have_apt() -> bool:
    """Whether this computer has apt at all (macOS has not)."""
    return shutil.which("apt-get") is not None


@dataclass(frozen=True)
class Apt:
    """apt over a directory of its own.

    + home: an empty directory of ours; dpkg: architecture of the machine in Debian's words
    """

    home: Path
    dpkg: str

    def prepare(self, status: str) -> None:
        """Make the directory; sources, preferences and keys below etc/ are the caller's.

        + status: what the machine has, as dpkg writes it
        """
        etc = [f"etc/{name}.d" for name in ("sources.list", "preferences", "trusted.gpg")]
        for name in ("state/lists/partial", "cache/archives/partial", "log", "keys", *etc):
            (self.home / name).mkdir(parents=True, exist_ok=True)
        (self.home / "status").write_text(status)
        (self.home / "apt.conf").write_text(self._config())

    def _config(self) -> str:
        etc = {
            "sourcelist": "sources.list",
            "sourceparts": "sources.list.d",
            "preferences": "preferences",
            "preferencesparts": "preferences.d",
            "trusted": "trusted.gpg",
            "trustedparts": "trusted.gpg.d",
        }
        lines = [f'Dir::Etc::{key} "{self.home}/etc/{name}";' for key, name in etc.items()]
        places = {"State": "state", "State::status": "status", "Cache": "cache", "Log": "log"}
        lines += [f'Dir::{key} "{self.home}/{name}";' for key, name in places.items()]
        lines += [f'Dir::Etc::{key} "/dev/null";' for key in ("parts", "main", "netrc")]
        lines += [f'Dir::Etc::netrcparts "{self.home}/none";']
        lines += [f'APT::Architecture "{self.dpkg}";', f'APT::Architectures {{ "{self.dpkg}"; }};']
        lines += ['Acquire::Languages "none";', 'APT::Sandbox::User "root";']
        return "\n".join([*lines, *_network()]) + "\n"

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """One program of apt's with its words."""
        env = {**os.environ, "APT_CONFIG": str(self.home / "apt.conf"), "LC_ALL": "C.UTF-8"}
        return subprocess.run(  # noqa: S603 - apt's programs, words of ours
            words, env=env, capture_output=True, text=True, check=False
        )

    def update(self) -> None:
        """Read every index; one that cannot be had is an error. Raises SparkwrightError."""
        done = self.run("apt-get", "-q", "-o", "APT::Update::Error-Mode=any", "update")
        if done.returncode:
            raise SparkwrightError(f"apt: {told(done.stderr)}")

    def install(self, words: Sequence[str], *options: str) -> subprocess.CompletedProcess[str]:
        """`apt-get install` of what is not there, without recommended packages."""
        common = ("-q", "--yes", "--no-install-recommends", "--no-upgrade")
        return self.run("apt-get", *common, *options, "install", *words)


def _network() -> list[str]:
    own = subprocess.run(
        ["apt-config", "dump"],  # noqa: S607 - the system's own
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    return [line for line in own.splitlines() if _NETWORK.match(line)]


def told(text: str) -> str:
    """apt's errors and warnings as one line."""
    lines = [line.strip() for line in text.splitlines() if line[:2] in ("E:", "W:")]
    return "; ".join(dict.fromkeys(lines)) or text.strip()[-500:]


def removed(simulation: str) -> list[str]:
    """Packages that apt would remove."""
    hits = [_DONE.match(line) for line in simulation.splitlines()]
    return [hit[2] for hit in hits if hit and hit[1] == "Remv"]


def unmet_lines(simulation: str) -> list[str]:
    """apt's own words on what cannot be had."""
    found = []
    for line in simulation.splitlines():
        hit = re.match(r"^\s*(\S+ : )?(?:Pre)?-?Depends: .*", line)
        if hit:
            found.append(" ".join(line.split()))
    return found
