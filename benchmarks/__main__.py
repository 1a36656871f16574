"""`make bench`: no-op converges beside Ansible's, and what else must stay small.

python -m benchmarks [PART ...]     all parts, or those named: noop, weights, bundle, lint, push,
                                    spread, build_once
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from subprocess import SubprocessError
from tempfile import TemporaryDirectory
from types import ModuleType

from benchmarks import build_once, bundle, lint, measure, push, site, spread, weights
from benchmarks.ansible import Ansible
from benchmarks.measure import Figure, Run, median, timed
from sparkwright.paths import PROJECT
from tests.lab.host import LabError, cache_dir
from tests.lab.lab import start_lab

ROUNDS = 3
PYINFRA = str(Path(sys.executable).with_name("pyinfra"))
# Limits of the figures that have nothing to be compared with.
COMMANDS, RTT50_S, RSS_MB = 60, 10.0, 300.0
MANY = 32
Part = Callable[[Path], Iterable[Figure]]


def say(text: str) -> None:
    """A line of progress with the load, without which no figure can be judged."""
    print(f"[load {measure.load()}] {text}", flush=True)


def noop(fleet: Path, *words: str, count: Path | None = None, memory: bool = False) -> Run:
    """
    One `pyinfra inventory.py deploy.py -y` that must change nothing, as a user starts it.

    + count: gets a line for each SSH channel
    + memory: sample the memory

    Raises RuntimeError when it changes something.
    """
    inventory = "benchmarks/counted_inventory.py" if count else "inventory.py"
    env = {"SPARKS_FILE": str(fleet), "PYTHONPATH": str(PROJECT), "PYINFRA_PROGRESS": "off"}
    env |= {"COUNT_FILE": str(count)} if count else {}
    run = timed([PYINFRA, inventory, "deploy.py", "-y", "--json", *words], env, memory)
    results = json.loads(run.out)["results"]
    if results["totals"]["success"] or results["totals"]["error"] or results["failed_hosts"]:
        raise RuntimeError(f"not a no-op: {results}")
    return run


def side_by_side(fleet: Path, ansible: Ansible) -> list[Figure]:
    """Both tools in turns, so that whatever else runs here slows both."""
    times: dict[str, list[Run]] = {}
    for turn in range(ROUNDS):
        pairs = (("1", "spark-1"), ("8", "sparks"))
        for number, limit in pairs:
            times.setdefault(f"noop_{number}", []).append(noop(fleet, "--limit", limit))
            times.setdefault(f"ansible_noop_{number}", []).append(ansible.run(limit))
        shown = ", ".join(f"{name} {runs[-1].seconds:.2f} s" for name, runs in times.items())
        say(f"round {turn + 1} of {ROUNDS}: {shown}")
    middle = {name: median(runs) for name, runs in times.items()}
    other = {**{name: f"ansible_{name}" for name in ("noop_1", "noop_8")},
             **{f"ansible_{name}": name for name in ("noop_1", "noop_8")}}  # fmt: skip
    order = ("noop_1", "noop_8", "ansible_noop_1", "ansible_noop_8")
    return [Figure(name, middle[name], "s", middle[other[name]]) for name in order]


def sizes(fleet: Path, folder: Path) -> list[Figure]:
    """Remote commands, a distant machine, and memory."""
    count = folder / "count"
    noop(fleet, "--limit", "spark-1", count=count)
    commands = len(count.read_text().splitlines())
    with site.distant(fleet) as far:
        distant = [noop(far) for _ in range(ROUNDS)]
    memory = [noop(fleet, memory=True).rss_mb for _ in range(ROUNDS)]
    return [
        Figure("noop_commands", commands, "ssh_channels_per_machine", COMMANDS),
        Figure("noop_rtt50", median(distant), "s", RTT50_S),
        Figure("laptop_rss", statistics.median(memory), "MB", RSS_MB),
    ]


def noops(folder: Path) -> Iterator[Figure]:
    """One machine, eight, and all of them, on one lab that grows."""
    with start_lab(machines=1) as lab:
        say("converging one machine, then eight")
        fleet = site.settled(lab, folder)
        ansible = Ansible(lab, fleet, folder)
        time.sleep(5)  # eight services have just been started
        yield from side_by_side(fleet, ansible)
        yield from sizes(fleet, folder)
        say(f"growing to {MANY} machines")
        yield many(site.converged(site.grown(lab, folder, MANY)))


def many(fleet: Path) -> Figure:
    """All machines beside one of them, in turns; the baseline is one."""
    time.sleep(5)  # their services have just been started
    one, all_ = [], []
    for turn in range(ROUNDS):
        one.append(noop(fleet, "--limit", "spark-1"))
        all_.append(noop(fleet))
        last = f"one {one[-1].seconds:.2f} s, {MANY} {all_[-1].seconds:.2f} s"
        say(f"round {turn + 1} of {ROUNDS}: {last}")
    return Figure(f"noop_{MANY}", median(all_), "s", median(one))


def on_lab(part: ModuleType, machines: int) -> Part:
    """A part that wants a lab with nothing on its machines."""

    def figures(folder: Path) -> Iterator[Figure]:
        with start_lab(machines=machines) as lab:
            yield from part.figures(lab, folder, say)

    return figures


def parts() -> dict[str, Part]:
    """What can be measured, each on its own, in the order of a whole run."""
    return {
        "noop": noops,
        "weights": weights.figures,
        "bundle": bundle.figures,
        "lint": lint.figures,
        "push": on_lab(push, 1),
        "spread": on_lab(spread, spread.MACHINES),
        "build_once": on_lab(build_once, build_once.MACHINES),
    }


def measured(name: str, part: Part, found: list[Figure]) -> bool:
    """Add a part's figures, those before a failure too; says whether all of them came."""
    # Not in /tmp: that may be memory, and weights are hashed on a disk.
    with TemporaryDirectory(dir=cache_dir()) as folder:
        try:
            for figure in part(Path(folder)):
                found.append(figure)
                say(str(figure).removeprefix("RESULT "))
        except (LabError, RuntimeError, OSError, SubprocessError) as error:
            print(f"bench {name}: {error}", file=sys.stderr)
            return False
    return True


def main() -> int:
    """Measure and print; 1 when something could not be measured."""
    known = parts()
    wanted = sys.argv[1:] or list(known)
    if unknown := [name for name in wanted if name not in known]:
        print(f"bench: no part {', '.join(unknown)}; known: {', '.join(known)}", file=sys.stderr)
        return 2
    found: list[Figure] = []
    try:
        whole = [measured(name, known[name], found) for name in wanted]
    except KeyboardInterrupt:
        print("bench: interrupted; everything was taken down", file=sys.stderr)
        return 130
    print(f"{measure.machine()}, load {measure.load()}")
    print("\n".join(map(str, found)))
    return 0 if all(whole) else 1


if __name__ == "__main__":
    sys.exit(main())
