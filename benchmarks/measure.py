"""Time and memory of a program, medians, and the lines that machines read."""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sparkwright.paths import PROJECT

TIMEOUT_S = 900
SAMPLE_S = 0.02


@dataclass(frozen=True)
class Run:
    """A program that ended.

    + seconds: wall time; rss_mb: the most that it and its children held at once, 10^6 bytes
    """

    seconds: float
    out: str
    err: str
    rss_mb: float = 0.0


@dataclass(frozen=True)
class Figure:
    """One measured value beside what it is compared with."""

    name: str
    value: float
    unit: str
    baseline: float

    def __str__(self) -> str:
        ratio = self.value / self.baseline
        return (
            f"RESULT {self.name} value={self.value:.4g} unit={self.unit} "
            f"baseline={self.baseline:.4g} ratio={ratio:.3f}"
        )


def timed(argv: Sequence[str], env: Mapping[str, str], memory: bool = False) -> Run:
    """
    Run a program in the project's directory.

    + memory: sample its memory; that costs time of its own

    Raises RuntimeError with the end of what it wrote when it fails.
    """
    began = time.monotonic()
    child = subprocess.Popen(
        argv,
        cwd=PROJECT,
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    peak = [0.0]
    if memory:
        threading.Thread(target=_sample, args=(child, peak), daemon=True).start()
    out, err = child.communicate(timeout=TIMEOUT_S)
    seconds = time.monotonic() - began
    if child.returncode:
        raise RuntimeError(f"{argv}: exit {child.returncode}\n{out[-3000:]}\n{err[-3000:]}")
    return Run(seconds, out, err, peak[0])


def _sample(child: subprocess.Popen[str], peak: list[float]) -> None:
    while child.poll() is None:
        peak[0] = max(peak[0], tree_mb(child.pid))
        time.sleep(SAMPLE_S)


def tree_mb(pid: int) -> float:
    """Resident memory of a process and its children, 10^6 bytes; shared pages count twice."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (OSError, IndexError):  # it ended meanwhile
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6 + sum(tree_mb(int(c)) for c in children)


def median(runs: Sequence[Run]) -> float:
    """The middle wall time, seconds."""
    return statistics.median(run.seconds for run in runs)


def load() -> str:
    """Load averages now."""
    return " ".join(f"{value:.2f}" for value in os.getloadavg())


def machine() -> str:
    """CPU, cores, kernel and date: a figure without them means nothing."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    cpu = models[0] if models else platform.machine()
    return f"machine: {cpu}, {os.cpu_count()} cores, Linux {platform.release()}, {now}"
