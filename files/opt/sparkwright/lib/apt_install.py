"""Installs Debian packages after looking at what apt would do, and refuses what we never touch.

    apt_install.py [--update FILE | --only FILE] PACKAGE[=VERSION]...

+ --update: a sources file whose lists are read anew first, and no others
+ --only: a sources file beside which no other is used at all: the machine's own may name hosts
  that an isolated machine cannot even look up

What an interrupted installation left (a power cut, an apt that was killed) is finished first,
unless it belongs to the system: then the one command that does it is named.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

APT = ["apt-get", "-o", "DPkg::Lock::Timeout=600", "-y", "--no-install-recommends"]
# Answers to dpkg's questions about configuration files: the machine's own stay (dpkg(1)).
KEEP = ["--force-confdef", "--force-confold"]
# Driver, kernel, firmware and container toolkit belong to DGX OS: on GB10 a driver without its
# firmware leaves `nvidia-smi: No devices found` (NVIDIA's forum, OTA2607). Report, never change.
PROTECTED = re.compile(
    r"^(cuda|cuda-drivers.*|nvidia-.*|libnvidia-.*|xserver-xorg.*"
    r"|linux-(image|modules|headers|generic|nvidia|firmware).*"
    r"|dgx-.*|fwupd.*|docker.*|containerd.*)$"
)
# A drop of an intranet's server is tried again; what could not be fetched is no mere warning.
STRICT = ("Acquire::Retries=3", "APT::Update::Error-Mode=any")
ACTION = re.compile(r"^(Inst|Remv) (\S+)")
UNMET = re.compile(r"^\s*(\S+) : (?:Pre)?Depends: (\S+).*")
# Held by one of us at a time: a run whose laptop is gone still goes on.
OURS = Path("/run/sparkwright-apt.lock")
# apt's own wait covers dpkg's lock only; these two are not waited for by anybody.
LISTS, FRONTEND = Path("/var/lib/apt/lists/lock"), Path("/var/lib/dpkg/lock-frontend")
# Status changes that dpkg has not yet put into its database (dpkg's doc on the updates directory).
UPDATES = Path("/var/lib/dpkg/updates")
# Longest wait for somebody else's apt, as for dpkg's lock above (our choice).
WAIT_S = 600.0


class AptError(Exception):
    """The packages cannot be installed; the message is for the user."""


def refused(simulation: str, wanted: Sequence[str]) -> list[str]:
    """What apt would do that we never do, a phrase each, from the text of `apt-get -s install`."""
    names = {word.split("=")[0] for word in wanted}
    found = []
    for line in simulation.splitlines():
        action = ACTION.match(line)
        if action and action[1] == "Remv":
            found.append(f"apt would remove {action[2]}")
        elif action and PROTECTED.match(action[2].split(":")[0]):
            how = "asked for by name" if action[2] in names else "pulled in"
            found.append(f"apt would install or change {action[2]} ({how})")
    # Our pin keeps the CUDA repository's drivers from being candidates: what wants one ends here.
    return found + [
        f"{name} wants {other}"
        for name, other in unmet(simulation)
        if PROTECTED.match(other.split(":")[0])
    ]


def unmet(simulation: str) -> list[tuple[str, str]]:
    """(package, what it wants and cannot have) where apt found no way."""
    hits = [UNMET.match(line) for line in simulation.splitlines()]
    return [(hit[1], hit[2]) for hit in hits if hit]


def run(argv: list[str]) -> subprocess.CompletedProcess[str]:
    """Run apt without questions."""
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
    return subprocess.run(argv, capture_output=True, text=True, env=env, check=False)


def wait_free(path: Path) -> None:
    """Wait until no other process holds a lock of apt or dpkg; after `WAIT_S` they may say so."""
    deadline = time.monotonic() + WAIT_S
    while path.exists() and time.monotonic() < deadline:
        with path.open("r+b") as file:
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except OSError:  # EACCES or EAGAIN (fcntl(2))
                time.sleep(1)


def unfinished(listing: str) -> list[str]:
    """Packages that dpkg began and did not finish.

    + listing: lines of `dpkg-query -W -f '${db:Status-Abbrev} ${binary:Package}\\n'`; the second
      letter is the state, the third one says "reinstall" (dpkg-query(1))
    """
    rows = [(line[:3], line[3:].strip()) for line in listing.splitlines()]
    return [name for state, name in rows if state[1:2] in tuple("UFHWt") or state[2:3] == "R"]


def repair() -> None:
    """Finish what was interrupted. Raises AptError where that is not ours to do, or fails."""
    query = ["dpkg-query", "-W", "-f", "${db:Status-Abbrev} ${binary:Package}\\n"]
    wait_free(FRONTEND)
    names = unfinished(run(query).stdout)
    if not names and not (UPDATES.is_dir() and any(UPDATES.iterdir())):
        return
    theirs = [name for name in names if PROTECTED.match(name.split(":")[0])]
    if theirs:
        raise AptError(
            f"the installation of {' '.join(theirs)} was interrupted and is not ours to finish; "
            "run on the machine: sudo dpkg --configure -a"
        )
    print(f"apt: finishing an interrupted installation: {' '.join(names) or 'dpkg'}", flush=True)
    done = run(["dpkg", *KEEP, "--configure", "-a"])
    if unfinished(run(query).stdout):  # unpacked by half: only its archive mends it
        options = [word for name in KEEP for word in ("-o", f"DPkg::Options::={name}")]
        judge(run([*APT, "-s", "-f", "install"]).stdout, [])
        done = run([*APT, *options, "-f", "install"])
    left = unfinished(run(query).stdout)
    if left or done.returncode != 0:
        raise AptError(f"an interrupted installation could not be finished:\n{tail(done)}")


def judge(simulation: str, words: Sequence[str]) -> None:
    """Raise AptError when apt would do what we never do."""
    found = refused(simulation, words)
    if found:
        raise AptError(
            f"refused, nothing was installed: {'; '.join(found)}; sparkwright never changes "
            "driver, kernel, firmware or container toolkit"
        )


def tail(done: subprocess.CompletedProcess[str]) -> str:
    """The end of what a program said."""
    return "\n".join((done.stdout + done.stderr).splitlines()[-15:])


def one_source(source: str | None, *more: str) -> list[str]:
    """apt's options for one sources file and no others."""
    one = [f"Dir::Etc::sourcelist={source}", "Dir::Etc::sourceparts=-", "APT::Get::List-Cleanup=0"]
    return [word for text in (*one, *more) if source for word in ("-o", text)]


def update(source: str | None = None, *more: str) -> subprocess.CompletedProcess[str]:
    """Read the package lists anew: all, or those of one sources file."""
    wait_free(LISTS)
    return run([*APT[:-2], *one_source(source, *more), "update"])


def install(words: list[str], only: str | None = None) -> None:
    """Simulate, judge, install. Raises AptError."""
    apt = [*APT, *one_source(only, *STRICT)]
    simulated = run([*apt, "-s", "install", *words])
    if simulated.returncode != 0:
        updated = update(only, *STRICT)
        simulated = run([*apt, "-s", "install", *words])
        if simulated.returncode != 0:
            judge(simulated.stdout, words)
            lacks = [f"{name} wants {other}" for name, other in unmet(simulated.stdout)]
            why = "; ".join([*lacks, (simulated.stderr or updated.stderr).strip()])
            hint = f"look at {only}" if only else "look at the machine's apt sources"
            raise AptError(f"cannot install {' '.join(words)}: {why}; {hint}")
    judge(simulated.stdout, words)
    done = run([*apt, "install", *words])
    if done.returncode != 0:
        raise AptError(f"install of {' '.join(words)} failed:\n{tail(done)}")


def main(argv: list[str]) -> int:
    """Repair, update, install; one clear line on refusal or failure."""
    options = argparse.ArgumentParser(prog="apt_install.py", description=__doc__)
    options.add_argument("--update", metavar="FILE")
    options.add_argument("--only", metavar="FILE")
    options.add_argument("packages", nargs="+")
    args = options.parse_args(argv)
    try:
        with OURS.open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            repair()
            fresh, more = (args.only, STRICT) if args.only else (args.update, ())
            if fresh and (updated := update(fresh, *more)).returncode != 0:
                raise AptError(f"{fresh}: cannot be read:\n{tail(updated)}")
            install(args.packages, args.only)
    except AptError as error:
        print(f"apt: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
