"""CUDA toolkit: is a new enough one there, and what to install when not. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sparkwright.llama_flags import newest_nvcc
from sparkwright.paths import LIB
from sparkwright.resources import Command, File, Spec, State, quote

KEYRING = "/usr/share/keyrings/cuda-archive-keyring.gpg"
SOURCES = "/etc/apt/sources.list.d/sparkwright-cuda.sources"
PIN = "/etc/apt/preferences.d/sparkwright-cuda"


@dataclass(frozen=True)
class Repository:
    """NVIDIA's repository as the lock pins it.

    + url: a flat repository
    + fingerprint: 40 hex digits of the signing key
    + keyring_url, keyring_sha256: the deb that carries the key
    + packages: package -> version
    """

    url: str
    fingerprint: str
    keyring_url: str
    keyring_sha256: str
    packages: Mapping[str, str]


def numbers(version: str) -> list[int]:
    """A version's numbers, so that 13.10 is newer than 13.9."""
    return [int(n) for n in re.findall(r"\d+", version)]


def satisfied(nvcc: State, minimum: str) -> bool:
    """Whether the machine's newest nvcc is new enough."""
    version = newest_nvcc(nvcc)[1]
    return bool(version) and numbers(version) >= numbers(minimum)


def sources_text(repository: Repository) -> str:
    """The apt source: signed by this key and no other."""
    return (
        "# Managed by sparkwright: NVIDIA's CUDA repository, for the toolkit only.\n"
        f"Types: deb\nURIs: {repository.url}\nSuites: /\nSigned-By: {KEYRING}\n"
    )


def pin_text(repository: Repository) -> str:
    """Priorities: only our packages come from there.

    NVIDIA's own pin puts the whole repository at 600, above Ubuntu's and DGX OS' drivers.
    """
    names = " ".join(sorted(repository.packages))
    return (
        "# Managed by sparkwright: never drivers from the CUDA repository.\n"
        "Package: cuda-drivers* nvidia-* libnvidia-* xserver-xorg-video-nvidia*\n"
        "Pin: release l=NVIDIA CUDA\nPin-Priority: -1\n\n"
        f"Package: {names}\nPin: release l=NVIDIA CUDA\nPin-Priority: 500\n"
    )


def install(repository: Repository) -> list[Command]:
    """
    Key, source and packages, each checked before the next.

    The keyring deb is not installed: it would add NVIDIA's own source list and pin. Only its key
    is taken out, and only when its fingerprint is the pinned one.
    """
    deb = "/run/sparkwright/cuda-keyring.deb"
    fetch = (
        f"mkdir -p /run/sparkwright && python3 {LIB}/fetch.py "
        f"{quote(repository.keyring_url, deb)} --sha256 {repository.keyring_sha256}"
    )
    key = f"python3 {LIB}/apt_key.py {quote(deb, KEYRING)} --fingerprint {repository.fingerprint}"
    words = [f"{name}={version}" for name, version in sorted(repository.packages.items())]
    return [
        Command(fetch),
        Command(key),
        *File(PIN, pin_text(repository)).fix([]),
        *File(SOURCES, sources_text(repository)).fix([]),
        Command(
            f"apt-get -q update -o Dir::Etc::sourcelist={SOURCES} -o Dir::Etc::sourceparts=- "
            "-o APT::Get::List-Cleanup=0"
        ),
        Command(f"python3 {LIB}/apt_install.py {quote(*words)}"),
    ]


def proof(minimum: str, nvcc_probe: Spec) -> Command:
    """A command that fails when the installation left no new enough nvcc."""
    shell = nvcc_probe["argv"][2]
    wanted = ".".join(str(n) for n in numbers(minimum))
    return Command(
        f"{{ {shell}; }} | while read -r path version; do printf '%s\\n' {wanted} \"$version\" | "
        'sort -CV && echo "$path"; done | grep -q . || '
        f"{{ echo 'cuda: no nvcc {wanted} or newer after the installation' >&2; exit 1; }}"
    )


def drift(states: Sequence[State], minimum: str) -> list[str]:
    """What is wrong with the toolkit, if anything."""
    if satisfied(states[0], minimum):
        return []
    path, version = newest_nvcc(states[0])
    have = f"{path} is {version}" if path else "no nvcc in $CUDA_HOME or /usr/local/cuda*"
    return [f"CUDA toolkit: {have}, {minimum} or newer is needed"]
