"""The push of a bundle beside rsync over the same ssh: first, again, and after a small change.

python -m benchmarks.push       these figures alone
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

from benchmarks import measure
from benchmarks.measure import Figure, timed
from sparkwright.bundle_layout import Entry
from sparkwright.facts import PYTHON
from sparkwright.paths import script
from sparkwright.push_ssh import ssh_words
from sparkwright.push_state import missing, program, state_probe
from sparkwright.resources import quote
from tests.lab.host import cache_dir
from tests.lab.lab import Lab, start_lab

MIB = 1 << 20
# 2 GiB of mixed sizes: shards, wheels, debs, small files.
SIZES = [
    512 * MIB,
    *[256 * MIB] * 3,
    *[64 * MIB] * 8,
    *[8 * MIB] * 16,
    *[MIB] * 96,
    *[64 << 10] * 512,
]
BLOCK = 32 * MIB
ROUNDS = 3
AGAIN_S = 2.0  # the limit for a push that finds everything there
PLACE = Path("/srv")


class Far(Protocol):
    """What the benchmark needs of a machine."""

    @property
    def groups(self) -> Sequence[Path]: ...

    def ssh(self, command: str, /) -> object: ...


class Push:
    """One tree, one machine.

    + data: how ssh reaches it; place: the folder there for what arrives
    """

    def __init__(self, machine: Far, data: Mapping[str, object], folder: Path, place: Path) -> None:
        self.machine, self.top = machine, folder / "tree"
        self.place, self.other = str(place / "push"), str(place / "rsync")
        self.user = data["ssh_user"]
        self.files = [self.write(number, size, 0) for number, size in enumerate(SIZES)]
        self.ssh = ssh_words(data)
        # A converge asks over pyinfra's open connection; only the files get one of their own.
        self.open = [self.ssh[0], "-o", f"ControlPath={folder}/ssh", *self.ssh[1:]]
        # The first word for an option counts (ssh_config(5)).
        master = [self.open[0], "-o", "ControlMaster=yes", "-N", "-f", *self.open[1:]]
        none = subprocess.DEVNULL
        subprocess.run(master, stdin=none, stdout=none, stderr=none, check=True)

    def write(self, number: int, size: int, version: int) -> Entry:
        """One file of random bytes, known by its hash."""
        path = self.top / f"part-{number % 7}" / f"file-{number:04d}"
        path.parent.mkdir(parents=True, exist_ok=True)
        block, digest, left = os.urandom(min(BLOCK, size)), hashlib.sha256(), size
        with path.open("wb") as out:
            while left:
                head = version.to_bytes(8, "big") + left.to_bytes(8, "big")
                piece = (head + block[16:])[:left]
                digest.update(piece)
                left -= out.write(piece)
        return Entry(str(path.relative_to(self.top)), size, digest.hexdigest())

    def empty(self) -> None:
        """A machine that has nothing; what is dirty is written before the clock starts."""
        self.machine.ssh(
            f"sudo rm -rf {self.place} {self.other}; "
            f"sudo install -d -o {self.user} {self.other}; sync"
        )
        os.sync()

    def rsync(self) -> float:
        """Seconds of rsync over the very same ssh."""
        shell = " ".join(shlex.quote(word) for word in self.ssh[:-1])
        target = f"{self.ssh[-1]}:{self.other}/"
        return timed(["rsync", "-a", "-e", shell, f"{self.top}/", target], {}).seconds

    def cpu_s(self) -> list[float]:
        """CPU-seconds so far: of programs that this one started and that ended, of the machine."""
        mine = resource.getrusage(resource.RUSAGE_CHILDREN)
        stats = [group / "cpu.stat" for group in self.machine.groups]  # cgroup2 has that
        lines = [line.split() for path in stats if path.exists() for line in path.open()]
        there = sum(int(number) for name, number in lines if name == "usage_usec")
        return [mine.ru_utime + mine.ru_stime, there / 1e6]

    def root(self, command: str) -> None:
        """prepare or settle, as a converge runs them."""
        wanted = program(command, self.place, self.files)
        words = [*self.open, f"sudo -n {wanted.shell}"]
        done = subprocess.run(
            words, input=wanted.stdin, text=True, capture_output=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{command}: {done.stderr}")

    def lacking(self) -> list[Entry]:
        """What the machine lacks, as both phases of a converge ask."""
        words = quote(*state_probe(self.place)["argv"])
        done = timed([*self.open, f"sudo -n {words}"], {})
        return missing(self.files, {"out": done.out})[0]

    def push(self) -> tuple[float, int]:
        """(seconds, bytes that travelled) of everything that a push does."""
        began = time.monotonic()
        sent = 0
        if self.lacking():
            self.root("prepare")
            lacking = self.lacking()
            remote = quote(*PYTHON, script("push_receive.py"),
                           f"{self.place}/.sparkwright/incoming")  # fmt: skip
            rows = [[entry.path, entry.size, entry.sha256] for entry in lacking]
            job = {"argv": [*self.ssh, remote], "top": str(self.top), "files": rows}
            words = [sys.executable, "-m", "sparkwright.push_send"]
            done = subprocess.run(words, text=True, input=json.dumps(job), capture_output=True,
                                  check=False)  # fmt: skip
            last = json.loads(done.stdout.splitlines()[-1])
            if done.returncode:
                raise RuntimeError(last["error"])
            sent = int(last["sent"])
            self.root("settle")
        return time.monotonic() - began, sent


def figures(lab: Lab, folder: Path, say: Callable[[str], None]) -> list[Figure]:
    """All three, on one machine of a lab."""
    machine = lab.machines[0]
    data = {
        "ssh_hostname": machine.address,
        "ssh_user": "spark",
        "ssh_key": str(lab.keys.user),
        "ssh_known_hosts_file": str(lab.keys.known_hosts),
    }
    return figures_of(Push(machine, data, folder, PLACE), say)


def figures_of(push: Push, say: Callable[[str], None]) -> list[Figure]:
    """All three."""
    megabytes = sum(SIZES) / 1e6
    ours, theirs = [], []
    for turn in range(ROUNDS):
        push.empty()
        theirs.append(push.rsync())
        push.empty()
        at = push.cpu_s()
        ours.append(push.push()[0])
        used = " + ".join(f"{b - a:.1f}" for a, b in zip(at, push.cpu_s(), strict=True))
        say(f"round {turn + 1} of {ROUNDS}: rsync {theirs[-1]:.2f} s, push {ours[-1]:.2f} s "
            f"({used} CPU-seconds here and there)")  # fmt: skip
    again = statistics.median(push.push()[0] for _ in range(ROUNDS))
    changed = list(range(5, len(SIZES), 100))  # 1 % of the files
    for number in changed:
        push.files[number] = push.write(number, SIZES[number], 1)
    sent = push.push()[1]
    push.empty()
    speed = [megabytes / statistics.median(times) for times in (ours, theirs)]
    return [
        Figure("push", speed[0], "MB_per_s", speed[1]),
        Figure("push_again", again, "s", AGAIN_S),
        Figure("push_delta", sent / 1e6, "MB", sum(SIZES[n] for n in changed) / 1e6),
    ]


def main() -> int:
    """Measure and print."""
    # Not in /tmp: that may be memory.
    with start_lab(machines=1) as lab, TemporaryDirectory(dir=cache_dir()) as folder:
        found = figures(lab, Path(folder), say)
    print(f"{measure.machine()}, load {measure.load()}")
    print("\n".join(map(str, found)))
    return 0


def say(text: str) -> None:
    """A line of progress with the load, without which no figure can be judged."""
    print(f"[load {measure.load()}] {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
