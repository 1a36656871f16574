"""What a lab leaves on the host, written down before it is made, so that the next start can clean.

Only things that carry our marker are ever touched: names from a record, processes whose pid *and*
start time were written by themselves.
"""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

from . import cgroups
from .host import LabError, mount_points, remove_tree, run, say

RECORDS = Path("/run/sparkwright-lab")
MARKER = ".sparkwright-lab"


def start_time(pid: int) -> str | None:
    """The start time of a process in clock ticks since boot (proc(5) field 22), None if gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] == "Z" else fields[19]


@dataclass(frozen=True)
class Process:
    """A process that is ours only while pid and start time both agree."""

    pid: int
    start: str

    @property
    def alive(self) -> bool:
        """Whether this very process still runs."""
        return start_time(self.pid) == self.start

    def end(self, sign: signal.Signals = signal.SIGKILL, wait: float = 10) -> None:
        """Signal it and wait.

        **Raises**: `LabError` when it is still there after `wait` seconds.
        """
        if self.alive:
            os.kill(self.pid, sign)
        deadline = time.monotonic() + wait
        while self.alive:
            if time.monotonic() > deadline:
                raise LabError(f"process {self.pid} did not end within {wait:.0f} s of {sign.name}")
            time.sleep(0.02)


def read_pidfile(path: Path) -> Process | None:
    """The process that spawn.sh wrote down; None when it never got that far."""
    if not path.exists():
        return None
    pid, start = path.read_text().split()
    return Process(int(pid), start)


@dataclass
class Record:
    """One lab's marks on the host.

    + owner: the process that will take it down; None for a lab left up by hand
    + tag: six hex digits in every interface and namespace name
    + checkout: the project folder that it was started from
    """

    run_id: str
    tag: str
    directory: str
    boot_id: str
    owner: tuple[int, str] | None
    checkout: str = ""
    bridge: str = ""
    subnet: str = ""
    namespaces: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    cgroups: list[str] = field(default_factory=list)

    @property
    def path(self) -> Path:
        """Where it is written; /run is empty after a reboot, as are interfaces and mounts."""
        return RECORDS / f"{self.run_id}.json"

    @property
    def home(self) -> Path:
        """The folder of the run: overlay layers, keys, logs."""
        return Path(self.directory)

    def save(self) -> None:
        """Write it in one step."""
        RECORDS.mkdir(mode=0o755, exist_ok=True)
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps(asdict(self), indent=1))
        new.rename(self.path)

    @property
    def abandoned(self) -> bool:
        """Whether its owner died without taking it down."""
        if self.boot_id != boot_id():
            return True
        return self.owner is not None and not Process(*self.owner).alive


def boot_id() -> str:
    """Differs after each boot of the host."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def load(path: Path) -> Record:
    """Read one record."""
    data = json.loads(path.read_text())
    data["owner"] = tuple(data["owner"]) if data["owner"] else None
    return Record(**data)


def load_all() -> list[Record]:
    """Every lab on this host, of whatever cache folder."""
    return [load(path) for path in sorted(RECORDS.glob("*.json"))] if RECORDS.exists() else []


def remove(record: Record) -> None:
    """Take a lab down completely: processes, mounts, links, namespaces, control groups, files."""
    same_boot = record.boot_id == boot_id()
    if record.home.exists() and not (record.home / MARKER).exists():
        raise LabError(f"{record.home}: no {MARKER} in it, so it is not ours; remove it by hand")
    if same_boot:
        for pidfile in sorted(record.home.rglob("*.pid")):
            process = read_pidfile(pidfile)
            if process:
                process.end()
        for group in record.cgroups:
            cgroups.kill(Path(group))
    for point in reversed(mount_points()):
        if record.home in point.parents:
            run("umount", point)
    _remove_network(record)
    for group in record.cgroups:
        cgroups.remove(Path(group))
    remove_tree(record.home)
    record.path.unlink(missing_ok=True)


def _remove_network(record: Record) -> None:
    for link in [*record.links, record.bridge]:
        if link and Path("/sys/class/net", link).exists():
            run("ip", "link", "delete", link)
    for namespace in record.namespaces:
        if Path("/run/netns", namespace).exists():
            run("ip", "netns", "delete", namespace)


def clean_abandoned(cache: Path) -> None:
    """Remove labs whose owner is gone, and run folders that a reboot left without a record."""
    for record in load_all():
        if record.abandoned:
            say(f"cleaning lab {record.run_id}, whose owner is gone")
            remove(record)
    known = {record.directory for record in load_all()}
    for folder in sorted((cache / "runs").glob("*/")):
        if str(folder) not in known and (folder / MARKER).exists():
            say(f"cleaning {folder}, left by a lab before the last boot")
            remove_tree(folder)
