"""`sparkwright lock --debs`: the Debian packages of a converge, exact to the file, by apt itself.

Asked of the indexes for the machine's architecture, with what the machine has already; the answer
is a listing beside the lock, a paragraph for each package as the signed index had it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from sparkwright import cuda
from sparkwright.apt_elsewhere import Apt, have_apt, removed, told, unmet_lines
from sparkwright.artifacts import Artifact, Lock
from sparkwright.bundle_layout import replace_text
from sparkwright.deb_index import (
    KEPT,
    STATUS,
    Paragraph,
    common,
    debs_of,
    parse,
    render,
    version_key,
)
from sparkwright.errors import Problem, SparkwrightError
from sparkwright.fleet import Fleet
from sparkwright.lock_machine import STATUS as STATUS_FILE
from sparkwright.lock_machine import lay_out, machine_files, sources_named
from sparkwright.needs import CUDA_KEY, Needs
from sparkwright.needs_parts import CUDA, base_name
from sparkwright.paths import FILES
from sparkwright.site import need

LIB: Final = FILES / "opt/sparkwright/lib"
_URI: Final = re.compile(r"^'(?P<url>[^']+)' (?P<file>\S+) (?P<size>[0-9]+) ")


def resolve_debs(
    lock: Lock,
    needs: Needs,
    places: Sequence[str],
    fleet: Fleet | None,
    tell: Callable[[str], None],
) -> Lock:
    """The lock with the packages that the machines lack; writes the listing beside it.

    + places: sparks, directories or archives of machines; what they have in common counts as
      installed, and the first one's sources are asked

    Raises SparkwrightError.
    """
    if not have_apt():
        what = "needs apt, which this computer has not"
        hint = "run it on Debian or Ubuntu (a container will do); the lock is the same"
        raise SparkwrightError(str(Problem("--debs", what, hint)))
    machines = [machine_files(place, fleet) for place in places]
    if not sources_named(machines[0]):
        what = "has no etc/apt/sources.list and no etc/apt/sources.list.d"
        raise SparkwrightError(str(Problem(f"--debs {places[0]}", what, "name another machine")))
    statuses = [files.get(STATUS_FILE, b"").decode(errors="replace") for files in machines]
    status = render(common(statuses), STATUS)
    tell(f"asking apt for {len(needs.packages)} packages for {needs.target}")
    with tempfile.TemporaryDirectory() as place:
        apt = Apt(Path(place), needs.target.dpkg)
        apt.prepare(status)
        lay_out(machines[0], apt.home)
        if any(word.partition("=")[0] in _cuda_names(lock) for word in needs.packages):
            _add_cuda(lock, apt)
        apt.update()
        listing = closure(apt, needs.packages)
    return _written(lock, needs, listing, status)


def _cuda_names(lock: Lock) -> Mapping[str, str]:
    item = lock.artifacts.get(CUDA)
    return (item.packages or {}) if item else {}


def _add_cuda(lock: Lock, apt: Apt) -> None:
    """NVIDIA's repository as the machines use it: its pinned key, and no driver out of it."""
    repository, keyring = lock.artifact(CUDA), lock.artifact(CUDA_KEY)
    deb, key = apt.home / "cuda-keyring.deb", apt.home / "keys/cuda.gpg"
    words = [str(need(keyring.url)), str(deb), "--sha256", need(keyring.sha256)]
    _program("fetch.py", *words)
    _program("apt_key.py", str(deb), str(key), "--fingerprint", need(repository.fingerprint))
    pinned = cuda.Repository(
        need(repository.url),
        need(repository.fingerprint),
        need(keyring.url),
        need(keyring.sha256),
        need(repository.packages),
    )
    texts = {
        "sources.list.d/sparkwright-cuda.sources": cuda.sources_text(pinned).replace(
            cuda.KEYRING, str(key)
        ),
        "preferences.d/sparkwright-cuda": cuda.pin_text(pinned),
    }
    for name, text in texts.items():
        (apt.home / "etc" / name).parent.mkdir(parents=True, exist_ok=True)
        (apt.home / "etc" / name).write_text(text)


def _program(name: str, *words: str) -> None:
    """One of the machines' own programs, here. Raises SparkwrightError with its words."""
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, str(LIB / name), *words], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SparkwrightError(done.stderr.strip())


def closure(apt: Apt, words: Sequence[str]) -> list[Paragraph]:
    """What `apt-get install` would fetch, with its index's paragraphs. Raises SparkwrightError."""
    simulated = apt.install(words, "--simulate")
    if simulated.returncode:
        lines = unmet_lines(simulated.stdout) or [told(simulated.stderr)]
        raise SparkwrightError(f"apt: cannot install the packages: {'; '.join(lines)}")
    if gone := removed(simulated.stdout):
        what = f"would remove {', '.join(gone)}, which a converge refuses"
        raise SparkwrightError(f"apt: {what}; look at the machine's sources")
    done = apt.install(words, "--print-uris")
    if done.returncode:
        raise SparkwrightError(f"apt: {told(done.stderr)}")
    uris = {m["file"]: m["url"] for line in done.stdout.splitlines() if (m := _URI.match(line))}
    return _paragraphs(apt, uris)


def _paragraphs(apt: Apt, uris: Mapping[str, str]) -> list[Paragraph]:
    wanted = {}
    for file, url in uris.items():
        name, version, arch = unquote(file).removesuffix(".deb").split("_")
        wanted[name, version, arch] = url
    if not wanted:
        return []
    shown = apt.run("apt-cache", "show", *[f"{n}={v}" for n, v, _ in wanted])
    found: dict[tuple[str, str, str], Paragraph] = {}
    for p in parse(shown.stdout):
        key = (p["Package"], p["Version"], p["Architecture"])
        same = key in wanted and base_name(wanted[key]) == p["Filename"].rsplit("/", 1)[-1]
        if same and p.get("SHA256"):
            found[key] = {**p, "Url": wanted[key]}
    lacking = sorted("_".join(key) for key in wanted.keys() - found.keys())
    if lacking:
        raise SparkwrightError(f"apt: its index has no sha256 for {', '.join(lacking)}")
    return [found[key] for key in sorted(found)]


def _written(lock: Lock, needs: Needs, listing: Sequence[Paragraph], status: str) -> Lock:
    """Listing and status beside the lock, and the artifact that names them."""
    name = needs.target.debs
    stem = f"debs/{name.removeprefix('debs-')}"
    text = render(listing, KEPT)
    for suffix, content in (("packages", text), ("status", status)):
        path = lock.path.parent / f"{stem}.{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_text(path, content)
    size = sum(int(p["Size"]) for p in listing)
    item = Artifact(
        name,
        "debs",
        listing=f"{stem}.packages",
        status=f"{stem}.status",
        sha256=hashlib.sha256(text.encode()).hexdigest(),
        size=size or None,
    )
    return dataclasses.replace(lock, artifacts={**lock.artifacts, name: item})


def changes(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """What moved between two sets of package -> version, a line each."""
    lines = []
    for name in sorted({*old, *new}):
        one, two = old.get(name), new.get(name)
        if one != two:
            back = bool(one and two) and version_key(str(two)) < version_key(str(one))
            lines.append(
                f"package {name}: {one or '(none)'} -> {two or '(none)'}"
                + (" (older)" if back else "")
            )
    return lines


def listed(lock: Lock, name: str) -> dict[str, str]:
    """Package -> version of a lock's listing; nothing when there is none yet."""
    item = lock.artifacts.get(name)
    path = lock.path.parent / str(item.listing) if item else lock.path.parent / "none"
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    return {deb.package: deb.version for deb in debs_of(text)}
