"""A machine's own package sources and what it has installed: read over SSH, or from a directory.

A directory holds what the machine has below /: etc/apt, usr/share/keyrings, var/lib/dpkg/status.
For a machine that this computer cannot reach, run there
    tar -chzf machine.tgz -C / etc/apt usr/share/keyrings var/lib/dpkg/status
and name the file instead.
"""

from __future__ import annotations

import io
import re
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from sparkwright.errors import Problem, SparkwrightError, nearest
from sparkwright.fleet import Fleet, Spark

STATUS: Final = "var/lib/dpkg/status"
WANTED: Final = ("etc/apt", "usr/share/keyrings", STATUS)
# auth.conf holds passwords; what cannot be read without root is not for us.
TAR: Final = "tar -chzf - --ignore-failed-read --exclude=etc/apt/auth.conf* -C / " + " ".join(
    WANTED
)
MAX_BYTES: Final = 256 * 10**6  # a status file has 3 MB (our choice)


def machine_files(place: str, fleet: Fleet | None) -> dict[str, bytes]:
    """The wanted files of a machine: path below / -> content. Raises SparkwrightError.

    + place: name of a spark, or path of a directory or a .tgz
    """
    path = Path(place).expanduser()
    if path.is_dir():
        return _of_directory(path)
    if path.is_file():
        return _of_archive(path.read_bytes(), place)
    sparks = {spark.name: spark for spark in fleet.sparks} if fleet else {}
    if place not in sparks:
        what = "is no spark of the fleet, no directory and no .tgz of a machine"
        raise SparkwrightError(str(Problem(f"--debs {place}", what, nearest(place, sparks))))
    assert fleet is not None  # noqa: S101 - `sparks` is empty without one
    return _of_archive(_over_ssh(sparks[place], fleet.path.parent), place)


def _of_directory(top: Path) -> dict[str, bytes]:
    found = {}
    for name in WANTED:
        place = top / name
        files = [place] if place.is_file() else sorted(p for p in place.rglob("*") if p.is_file())
        for path in files:
            if not path.name.startswith("auth.conf"):
                found[path.relative_to(top).as_posix()] = path.read_bytes()
    return found


def _of_archive(data: bytes, place: str) -> dict[str, bytes]:
    """Plain files with plain paths alone: the archive comes from elsewhere."""
    found: dict[str, bytes] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:*") as tar:
            for entry in tar:
                name = PurePosixPath(entry.name.removeprefix("./"))
                plain = not name.is_absolute() and ".." not in name.parts
                if entry.isfile() and plain and str(name).startswith(WANTED):
                    file = tar.extractfile(entry)
                    found[str(name)] = file.read(MAX_BYTES) if file else b""
    except (tarfile.TarError, EOFError) as error:
        what = f"is no archive of a machine ({error})"
        raise SparkwrightError(str(Problem(f"--debs {place}", what))) from error
    return found


def ssh_words(spark: Spark, base: Path) -> list[str]:
    """OpenSSH's words for a spark: as sparks.yaml says, and never a question."""
    ssh = spark.ssh
    accept = "yes" if ssh.host_keys == "strict" else "accept-new"
    options = {
        "BatchMode": "yes",
        "ConnectTimeout": "10",
        "UserKnownHostsFile": str(base / Path(ssh.known_hosts).expanduser()),
        "StrictHostKeyChecking": accept,
        "Port": str(ssh.port),
    }
    words = ["ssh", *[w for key, value in options.items() for w in ("-o", f"{key}={value}")]]
    words += ["-F", str(base / Path(ssh.config).expanduser())] if ssh.config else []
    words += ["-i", str(base / Path(ssh.key).expanduser())] if ssh.key else []
    words += ["-J", ssh.jump] if ssh.jump else []
    return [*words, *(["-l", ssh.user] if ssh.user else []), spark.address]


def _over_ssh(spark: Spark, base: Path) -> bytes:
    try:
        done = subprocess.run(  # noqa: S603 - ssh, with words of ours
            [*ssh_words(spark, base), TAR],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    except FileNotFoundError as error:
        raise SparkwrightError("ssh: is not installed; install OpenSSH's client") from error
    if not done.stdout:
        told = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        what = f"cannot be read over SSH ({' '.join(told)})"
        hint = "name a directory or .tgz of the machine instead (docs/air-gap.md)"
        raise SparkwrightError(str(Problem(f"--debs {spark.name}", what, hint)))
    return done.stdout


def lay_out(files: dict[str, bytes], home: Path) -> None:
    """Put a machine's sources, preferences and keys where `apt_elsewhere` reads them.

    Keys are named by path in the sources: those paths become ours.
    """
    for name, content in files.items():
        if name == STATUS:
            continue
        if name.startswith("etc/apt/"):
            place = home / "etc" / name.removeprefix("etc/apt/")
            if place.suffix in (".list", ".sources") or place.name == "sources.list":
                content = _own_keys(content.decode(errors="replace"), home).encode()
        if name.startswith(("usr/share/keyrings/", "etc/apt/keyrings/")):
            place = home / "keys" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)


def _own_keys(text: str, home: Path) -> str:
    pattern = r"(?im)(signed-by\s*[:=]\s*)(/(?:usr/share|etc/apt)/keyrings/)"
    return re.sub(pattern, rf"\g<1>{home}/keys\g<2>", text)


def sources_named(files: dict[str, bytes]) -> Sequence[str]:
    """Paths of the files that name package sources."""
    return [name for name in files if name.startswith("etc/apt/sources.list")]
