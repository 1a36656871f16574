"""What the lab needs from the computer it runs on: commands, folders, progress lines."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
STARTED = time.monotonic()

# Debian package -> command that proves it; scripts/setup.sh installs the same list.
TOOLS = {
    "systemd-container": "systemd-nspawn",
    "mmdebstrap": "mmdebstrap",
    "iproute2": "ip",
    "openssh-client": "ssh-keygen",
    "apt-utils": "apt-ftparchive",
    "gpg": "gpg",
    "dpkg": "dpkg-deb",
    "git": "git",
    "zstd": "zstd",
}


class LabError(Exception):
    """The lab cannot do what was asked; the message says what to do and needs no traceback."""


def say(text: str) -> None:
    """Print one progress line with the seconds since the start, so that a user sees movement."""
    print(f"[{time.monotonic() - STARTED:6.1f} s] lab: {text}", file=sys.stderr, flush=True)


def run(
    *argv: str | Path,
    stdin: str | None = None,
    check: bool = True,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    timeout: float = 900,
) -> subprocess.CompletedProcess[str]:
    """Run a command of the host and capture its output.

    + env: variables added to the present environment
    + timeout: seconds; a prepare step that takes longer is stuck

    **Raises**: `LabError` with the end of its output when it fails and `check` is set.
    """
    words = [str(word) for word in argv]
    done = subprocess.run(
        words,
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        env={**os.environ, **(env or {})},
        cwd=cwd,
        timeout=timeout,
        capture_output=True,
        text=True,
        check=False,
    )
    if check and done.returncode:
        tail = (done.stderr + done.stdout)[-1500:].strip()
        raise LabError(f"{' '.join(words)[:300]}: exit code {done.returncode}\n{tail}")
    return done


def missing() -> list[str]:
    """Everything that keeps the lab from starting here, each with what to do about it."""
    if not sys.platform.startswith("linux"):
        return [f"{sys.platform}: the lab boots Linux machines; run it on a Linux computer or VM"]
    found = []
    if os.geteuid() != 0:
        found.append("not root: mounts and network namespaces need it; run it with sudo")
    lacking = [package for package, tool in TOOLS.items() if shutil.which(tool) is None]
    if lacking:
        found.append(f"missing packages {' '.join(lacking)}: run scripts/setup.sh")
    return found


def require() -> None:
    """Stop early when the lab cannot run here.

    **Raises**: `LabError` with all the reasons at once.
    """
    found = missing()
    if found:
        raise LabError("the lab cannot start:\n  " + "\n  ".join(found))


def cache_dir() -> Path:
    """The folder with everything that is made once: $SPARKWRIGHT_LAB_CACHE or ~/.cache/….

    **Raises**: `LabError` for a path that an overlay mount cannot express.
    """
    default = Path.home() / ".cache" / "sparkwright-lab"
    path = Path(os.environ.get("SPARKWRIGHT_LAB_CACHE") or default).absolute()
    if set(str(path)) & set(":,\\ "):
        raise LabError(f"{path}: no ':', ',', '\\' or blank may stand in the lab's cache path")
    path.mkdir(parents=True, exist_ok=True)
    return path


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on a file; two labs prepare or pick a subnet one after the other."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@contextmanager
def made_beside(target: Path) -> Iterator[Path]:
    """Give an empty folder that becomes `target` only when the block ends well.

    An interrupted build leaves a `.partial` folder, which the next one removes; `target` itself
    exists only complete. Hold the prepare lock around it.
    """
    partial = target.with_name(target.name + ".partial")
    remove_tree(partial)
    partial.mkdir(parents=True)
    yield partial
    partial.rename(target)


def remove_tree(path: Path) -> None:
    """Remove a folder; one with a mount inside is refused, for that would empty the mount."""
    if not path.exists():
        return
    inside = [point for point in mount_points() if point == path or path in point.parents]
    if inside:
        raise LabError(f"{path}: {inside[0]} is still mounted; unmount it first")
    # Files at its top last: a run's mark says whose it is, also when this is cut in the middle.
    for folder in (item for item in path.iterdir() if item.is_dir() and not item.is_symlink()):
        shutil.rmtree(folder)
    shutil.rmtree(path)


def mount_points() -> list[Path]:
    """Every mount point of this process's namespace, oldest first."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    # Field 5; the kernel writes blanks and the like as octal escapes (proc(5)).
    return [Path(line.split()[4].encode().decode("unicode_escape")) for line in lines]
