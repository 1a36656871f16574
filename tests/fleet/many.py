"""32 machines: a run that changes nothing, and one that changes a single unit."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks import site
from benchmarks.measure import tree_mb
from tests.e2e import support
from tests.e2e.support import PROGRAM, PROJECT
from tests.lab.host import LabError
from tests.lab.lab import Lab, start_lab

MACHINES = 32
# Bounds on the laptop: an SSH connection a machine, and memory: 300 MB, which eight machines may
# take (benchmarks, laptop_rss), and about 4 MB for each of the other 24. That is a guess, and no
# run of 32 machines has tried it yet.
CONNECTIONS, RSS_MB = 1, 400.0
SAMPLE_S = 0.05
ESTABLISHED = "01"  # /proc/net/tcp


@dataclass(frozen=True)
class Seen:
    """What a converge of all machines took on the laptop.

    + seconds: wall time; rss_mb: 10^6 bytes at most; connections: SSH connections at most
    """

    seconds: float
    rss_mb: float
    connections: int

    def __str__(self) -> str:
        return f"{self.seconds:.1f} s, {self.rss_mb:.0f} MB, {self.connections} connections"


def connections(prefix: str) -> int:
    """Open SSH connections from this computer into a network.

    + prefix: the first three bytes of its addresses, as /proc/net/tcp writes them (reversed)
    """
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(r[2].endswith(f"{prefix}:0016") and r[3] == ESTABLISHED for r in rows)


def _prefix(lab: Lab) -> str:
    return "".join(f"{int(part):02X}" for part in lab.machines[0].address.split(".")[2::-1])


def converge(lab: Lab, fleet: Path) -> tuple[Seen, subprocess.CompletedProcess[str]]:
    """Converge all machines and look at the laptop's side meanwhile."""
    began = time.monotonic()
    child = subprocess.Popen(
        [PROGRAM, "converge", "--json"],
        cwd=PROJECT, env={**os.environ, "SPARKS_FILE": str(fleet)},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    peaks = [0.0, 0.0]
    done = threading.Event()

    def look() -> None:
        while not done.wait(SAMPLE_S):
            peaks[0] = max(peaks[0], tree_mb(child.pid))
            peaks[1] = max(peaks[1], float(connections(_prefix(lab))))

    watch = threading.Thread(target=look, daemon=True)
    watch.start()
    out, err = child.communicate()
    done.set()
    watch.join()
    seen = Seen(time.monotonic() - began, peaks[0], int(peaks[1]))
    return seen, subprocess.CompletedProcess(child.args, child.returncode, out, err)


def _good(what: str, seen: Seen, done: subprocess.CompletedProcess[str]) -> dict[str, object]:
    if done.returncode:
        raise LabError(f"{what} of {MACHINES} machines failed:\n{done.stderr[-3000:]}")
    if seen.connections > CONNECTIONS * MACHINES or seen.rss_mb > RSS_MB:
        bound = f"{RSS_MB:.0f} MB and {CONNECTIONS * MACHINES} connections"
        raise LabError(f"{what}: {seen} on the laptop; the bound is {bound}")
    summary: dict[str, object] = json.loads(done.stdout)
    return summary


def run(place: Path, say: Callable[[str], None]) -> int:
    """
    Both runs on a lab of its own; returns the number of machines.

    + place: a folder for the fleet file

    Raises LabError with what was wrong.
    """
    with start_lab(machines=1) as lab:
        fleet = site.settled(lab, place, MACHINES)
        before = support.processes(lab.machines)
        seen, done = converge(lab, fleet)
        summary = _good("a converge without a change", seen, done)
        say(f"{MACHINES} machines, nothing to do: {seen}")
        if summary["changed"] or support.processes(lab.machines) != before:
            raise LabError(f"it changed something: {summary['changes']}")
        serve: dict[str, list[object]] = {machine.name: [site.RECIPE] for machine in lab.machines}
        last = lab.machines[-1].name
        serve[last] = [{"recipe": site.RECIPE, "port": 8099}]
        seen, done = converge(lab, lab.write_fleet(place / "one.yaml", serve))
        summary = _good("a converge with one change", seen, done)
        say(f"{MACHINES} machines, one unit changes: {seen}")
        after = support.processes(lab.machines)
        other = {name for name in before if after.get(name) != before[name]}
        if {name.split("/")[0] for name in other} != {last}:
            raise LabError(f"these processes changed, not that of {last} alone: {other}")
    return len(before)
