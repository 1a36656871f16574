"""`python -m tests.operate`: every test of the operate commands, and one line that says how.

Unit tests, the tests on lab machines, a real bench, and every cause that doctor can name, provoked
on a lab machine. Exit status 1 when anything is not ok, or not there.
"""

from __future__ import annotations

import subprocess
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sparkwright.doctor import causes
from tests.e2e import support
from tests.lab.lab import Lab, start_lab
from tests.lab.machine import Machine

# What stands behind each word of the line, without machines.
UNIT = {
    "fit": ("fit", "kv_cache", "model_shape", "roofline"),
    "doctor": ("doctor",),
    "bench": ("bench",),
    "status": ("status", "logs", "leaves_nothing", "support_report", "weights_store",
               "weights_text", "summary", "show", "cli_help", "drift_metrics", "gpu_clock"),
    "verify": ("verify",),
}  # fmt: skip
# Which words a file of lab tests stands behind; any other counts for status.
LAB = {"test_fleet.py": ("status", "verify", "doctor"), "test_bench.py": ("bench",),
       "test_broken.py": ("status", "verify", "bench", "fit")}  # fmt: skip
ORDER = ("status", "verify", "bench", "fit", "doctor")
GPT, LLAMA = "tiny-gpt-oss-llamacpp", "tiny-llama-llamacpp"
WORD = {True: "ok", False: "FAILED"}


@dataclass(frozen=True)
class Site:
    """A converged lab: the first machine serves gpt-oss alone, the second a llama."""

    lab: Lab
    fleet: Path

    @property
    def one(self) -> Machine:
        """The machine that is looked at."""
        return self.lab.machines[0]

    @property
    def two(self) -> Machine:
        """Another one, from which it is asked."""
        return self.lab.machines[1]


def passed(words: list[str]) -> bool:
    """Whether pytest is content."""
    argv = [sys.executable, "-m", "pytest", "-q", *words]
    return subprocess.run(argv, check=False).returncode == 0


def units(name: str) -> bool:
    """The unit tests of a word; those whose files are there, for each comes with its command."""
    place = Path(__file__).parents[1] / "unit"
    files = [path for part in UNIT[name] for path in place.glob(f"test_{part}*.py")]
    return bool(files) and passed([str(path) for path in files])


def on_lab() -> dict[str, bool]:
    """The words with whether every file of lab tests behind them passed."""
    fine = dict.fromkeys(ORDER, True)
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        good = passed([str(path)])
        for name in LAB.get(path.name, ("status",)):
            fine[name] = fine[name] and good
    return fine


def absent(site: Site) -> Any:
    """Stands for a part that is not there."""
    return "absent"


def part(name: str, function: str) -> Callable[[Site], Any]:
    """A function of a sibling module, or `absent`."""
    if find_spec(f"tests.operate.{name}") is None:
        return absent
    found: Callable[[Site], Any] = getattr(import_module(f"tests.operate.{name}"), function)
    return found


def told(run: Callable[[Site], Any], site: Site) -> Any:
    """What a part says; its failure is printed, and the others go on."""
    try:
        return run(site)
    except Exception:  # whatever is wrong with one part, the line names the others as well
        traceback.print_exc()
        return None


def on_machines() -> tuple[str, tuple[int, int]]:
    """(how bench went, (causes provoked, causes that doctor can name))."""
    serve: dict[str, list[object]] = {"spark-1": [GPT], "spark-2": [LLAMA]}
    with start_lab(machines=2) as lab, TemporaryDirectory() as place:
        fleet = lab.write_fleet(Path(place) / "sparks.yaml", serve, support.settings())
        support.converge(fleet)
        site = Site(lab, fleet)
        bench = told(part("bench_case", "run"), site) or "FAILED"
        # Last: it boots the machine, and cuts its power.
        provoked = told(part("causes", "provoke"), site)
    return str(bench), provoked if isinstance(provoked, tuple) else (0, len(causes()))


def main() -> int:
    """Run everything; 1 when something failed or is absent."""
    said, lab = {name: units(name) for name in UNIT}, on_lab()
    bench, (count, known) = on_machines()
    if bench == "absent" and (Path(__file__).parent / "test_bench.py").exists():
        bench = "ok"  # the lab tests alone stand behind it
    good = {name: said[name] and lab[name] for name in ORDER}
    parts = {name: WORD[good[name]] for name in ORDER}
    parts["bench"] = bench if good["bench"] else "FAILED"
    parts["doctor"] = f"{count if good['doctor'] else 0}/{known}"
    print("RESULT operate", *(f"{name}={parts[name]}" for name in ORDER))
    fine = [parts[name] == "ok" for name in ORDER if name != "doctor"]
    return 0 if all(fine) and count == known and good["doctor"] else 1


if __name__ == "__main__":
    raise SystemExit(main())
