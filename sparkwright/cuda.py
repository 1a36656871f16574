"""CUDA toolkit: is a new enough one there, and what to install when not. Pure."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sparkwright.llama_flags import newest_nvcc, nvcc_probe
from sparkwright.paths import LIB
from sparkwright.resources import Absent, Command, File, Spec, State, attributes, quote

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
    + only: a sources file that has these packages, key included; then NVIDIA's is not used
    """

    url: str
    fingerprint: str
    keyring_url: str
    keyring_sha256: str
    packages: Mapping[str, str]
    only: str | None = None


@dataclass(frozen=True)
class ToolkitPlan:
    """What differs, and the commands that mend it; nothing when the toolkit is as wanted."""

    drift: tuple[str, ...] = ()
    commands: tuple[Command, ...] = ()


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
    return [
        *([] if repository.only else _key(repository)),
        *[command for file in files(repository) for command in file.fix([])],
        _packages(repository, repository.packages, f"--update {SOURCES} "),
    ]


def files(repository: Repository) -> tuple[File, File | Absent]:
    """The pin, and then the source that it holds in check.

    Without a source the pin stays: it tells that the toolkit is ours.
    """
    source = Absent(SOURCES) if repository.only else File(SOURCES, sources_text(repository))
    return File(PIN, pin_text(repository)), source


def _key(repository: Repository) -> list[Command]:
    deb = "/run/sparkwright/cuda-keyring.deb"
    fetch = (
        f"mkdir -p /run/sparkwright && python3 {LIB}/fetch.py "
        f"{quote(repository.keyring_url, deb)} --sha256 {repository.keyring_sha256}"
    )
    key = f"python3 {LIB}/apt_key.py {quote(deb, KEYRING)} --fingerprint {repository.fingerprint}"
    return [Command(fetch), Command(key)]


def _packages(repository: Repository, names: Iterable[str], update: str = "") -> Command:
    words = [f"{name}={repository.packages[name]}" for name in sorted(names)]
    if repository.only:
        update = f"--only {repository.only} "
    return Command(f"python3 {LIB}/apt_install.py {update}{quote(*words)}")


def proof(minimum: str, question: Spec) -> Command:
    """A command that fails when the installation left no new enough nvcc.

    + question: what `nvcc_probe` gives
    """
    shell = question["argv"][2]
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


def probes(packages: Iterable[str]) -> list[Spec]:
    """Questions: which nvcc, and what is there of our own source, pin, key and packages."""
    # No keyring, no trust database, no home: gpg makes and needs none of them then.
    quiet = "--batch --no-options --no-keyring --trust-model always --homedir /nonexistent"
    show = f"gpg {quiet} --with-colons --show-keys {KEYRING}"
    return [
        nvcc_probe(),
        {"kind": "path", "path": PIN},
        {"kind": "path", "path": SOURCES},
        {"kind": "path", "path": KEYRING},
        {
            "kind": "run",
            "argv": ["sh", "-c", f"if [ -e {SOURCES} ] || [ -e {PIN} ]; then {show}; fi"],
        },
        {"kind": "packages", "names": sorted(packages)},
    ]


def ours(states: Sequence[State]) -> bool:
    """Whether the toolkit came from us; DGX OS' own has neither our source nor our pin."""
    return any(state.get("type", "missing") != "missing" for state in states[1:3])


def plan(repository: Repository, minimum: str, states: Sequence[State]) -> ToolkitPlan:
    """Install everything when nvcc is absent or old; else mend what is ours, and only that."""
    old = drift(states, minimum)
    if old:
        return ToolkitPlan(tuple(old), (*install(repository), proof(minimum, nvcc_probe())))
    if not ours(states):
        return ToolkitPlan()
    found = [] if repository.only else _key_drift(repository, states[3], states[4])
    commands = []
    if found:
        commands += _key(repository)
    for file, state in zip(files(repository), states[1:3], strict=True):
        wrong = file.drift([state])
        found += wrong
        commands += file.fix([state]) if wrong else []
    # Any version will do: a newer one that somebody chose is not taken back.
    gone = sorted(set(repository.packages) - set(states[5].get("versions", {})))
    found += [f"package {name}: not installed" for name in gone]
    commands += [_packages(repository, gone)] if gone else []
    return ToolkitPlan(tuple(found), tuple(commands))


def _key_drift(repository: Repository, file: State, shown: State) -> list[str]:
    """A key is known by its fingerprint; apt reads it as an account of its own, hence the mode."""
    if file.get("type") != "file":
        return [f"{KEYRING}: {file.get('type', 'unreadable')}, not a file"]
    rows = [line.split(":") for line in shown.get("out", "").splitlines()]
    prints = [after[9] for row, after in itertools.pairwise(rows) if row[0] == "pub"]
    found = attributes(file, {"owner": "root", "group": "root", "mode": "0644"})
    if prints != [repository.fingerprint.replace(" ", "").upper()]:
        found.insert(0, f"its keys are {prints}, not {repository.fingerprint}")
    return [f"{KEYRING}: {', '.join(found)}"] if found else []
