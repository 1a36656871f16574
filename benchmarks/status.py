"""`sparkwright status` of 32 machines: all there, and with some that are switched off.

python -m benchmarks.status measures it alone, on a lab of its own.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks import measure, site
from benchmarks.measure import Figure
from sparkwright.paths import PROJECT
from tests.e2e.support import PROGRAM
from tests.lab.host import cache_dir
from tests.lab.lab import Lab, start_lab

MACHINES, OFF, ROUNDS = 32, 3, 5
LIMIT_S = 3.0  # of the issue that asked for the command
TIMEOUT_S = 3.0  # for those that are off: how long one machine may take


def look(fleet: Path, *words: str) -> tuple[float, list[bool]]:
    """Wall time of one `sparkwright status`, seconds, and which machines were reached."""
    began = time.monotonic()
    done = subprocess.run(
        [PROGRAM, "status", "--json", *words], cwd=PROJECT, capture_output=True, text=True,
        env={**os.environ, "SPARKS_FILE": str(fleet)}, stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    seconds = time.monotonic() - began
    if done.returncode == 2 and not words:
        raise RuntimeError(f"not every machine was reached: {done.stdout[-2000:]}{done.stderr}")
    return seconds, [machine["reached"] for machine in json.loads(done.stdout)["machines"]]


def figures(lab: Lab, folder: Path, say: Callable[[str], None]) -> list[Figure]:
    """
    Medians.

    + lab: with one machine
    """
    fleet = site.multiplied(lab, folder, MACHINES)
    time.sleep(5)  # 32 services have just been started
    times = [look(fleet)[0] for _ in range(ROUNDS)]
    say(f"status of {MACHINES}: {', '.join(f'{t:.2f}' for t in times)} s")
    for machine in lab.machines[-OFF:]:
        machine.link_down()
    cut = [look(fleet, "--timeout", f"{TIMEOUT_S:g}") for _ in range(ROUNDS)]
    if any(sum(reached) != MACHINES - OFF for _, reached in cut):
        raise RuntimeError(f"reached {[sum(reached) for _, reached in cut]} of {MACHINES}")
    away = [seconds for seconds, _ in cut]
    say(f"status with {OFF} of {MACHINES} off: {', '.join(f'{t:.2f}' for t in away)} s")
    return [
        Figure("status_32", statistics.median(times), "s", LIMIT_S),
        # One after the other they would take OFF times as long.
        Figure("status_32_3off", statistics.median(away), "s", LIMIT_S + TIMEOUT_S),
    ]


def main() -> int:
    """Measure and print."""
    with start_lab(machines=1) as lab, TemporaryDirectory(dir=cache_dir()) as place:
        found = figures(lab, Path(place), lambda text: print(text, flush=True))
    print(f"{measure.machine()}, load {measure.load()}")
    print("\n".join(map(str, found)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
