"""`make kills`: first converges die at seeded-random moments; one more run must mend each.

The last line is `RESULT kills tried=<n> converged=<n>`; the exit status is 1 unless they are equal.
"""

from __future__ import annotations

import argparse
import random
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory

import yaml

from tests.e2e import support
from tests.kills import aimed, deaths
from tests.kills.cases import AIMED, Case, all_cases, chosen, moment
from tests.kills.deaths import Site, Wrong
from tests.kills.program import Converge
from tests.lab.host import LabError
from tests.lab.lab import Lab, start_lab

SERVE = ["tiny-gpt-oss-llamacpp"]
SAY = threading.Lock()


def say(text: str) -> None:
    """One line at a time, whichever machine it is about."""
    with SAY:
        print(text, flush=True)


class Pool:
    """The lab's machines; each case takes one for itself."""

    def __init__(self, lab: Lab, home: Path) -> None:
        self.free: SimpleQueue[Site] = SimpleQueue()
        self.sites = [_site(lab, number, home) for number in range(len(lab.machines))]
        for site in self.sites:
            self.free.put(site)

    @contextmanager
    def one(self) -> Iterator[Site]:
        """A machine that nobody else uses meanwhile."""
        site = self.free.get()
        text = site.fleet.read_text()
        try:
            yield site
        finally:
            site.fleet.write_text(text)
            self.free.put(site)


def _site(lab: Lab, number: int, home: Path) -> Site:
    machine = lab.machines[number]
    place = home / machine.name
    place.mkdir(parents=True)
    names = {machine.name: SERVE}
    fleet = lab.write_fleet(place / "sparks.yaml", names, support.settings())
    data = yaml.safe_load(fleet.read_text())
    data["sparks"] = {machine.name: data["sparks"][machine.name]}
    fleet.write_text(yaml.safe_dump(data, sort_keys=False))
    return Site(machine, fleet, home)


def measure(pool: Pool) -> list[float]:
    """The marks of an undisturbed first converge."""
    with pool.one() as site:
        marks = deaths.first(site, "undisturbed")
    say(f"undisturbed: {marks[-1]:.1f} s")
    return marks


def attempt(pool: Pool, case: Case, marks: list[float]) -> bool:
    """Run a case and say how it went."""
    with pool.one() as site:
        began = time.monotonic()
        try:
            if case.name in AIMED:
                seen = aimed.CASES[case.name](site)
            else:
                seen = deaths.die(site, case.name, case.kind, moment(case.share, marks))
        except (Wrong, LabError, AssertionError) as error:
            say(f"{case.name}: FAILED on {site.machine.name}: {type(error).__name__}: {error}")
            return False
        say(f"{case.name}: {seen}; one run mended it ({time.monotonic() - began:.0f} s)")
        return True


def attempt_all(pool: Pool, cases: list[Case], marks: list[float]) -> list[bool]:
    """Run the cases, as many at a time as there are machines."""
    threads = ThreadPoolExecutor(len(pool.sites))
    try:
        return list(threads.map(lambda case: attempt(pool, case, marks), cases))
    except KeyboardInterrupt:
        Converge.over = True
        for started in Converge.every:
            started.kill()
        raise
    finally:
        # One that resets its machine would mount again what is being taken down.
        threads.shutdown(cancel_futures=True)


def parser() -> argparse.ArgumentParser:
    """The options."""
    options = argparse.ArgumentParser(prog="python -m tests.kills", description=__doc__)
    options.add_argument("--seed", type=int, help="of an earlier run, to repeat its moments")
    options.add_argument("--only", action="append", default=[], metavar="CASE", help="name or kind")
    options.add_argument("--machines", type=int, default=3, help="at the same time")
    options.add_argument("--keep", type=Path, metavar="DIR", help="keep every run's log there")
    return options


def run(options: argparse.Namespace, home: Path) -> int:
    """Boot, measure, kill; returns an exit status."""
    seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    cases = chosen(all_cases(seed), options.only)
    count = min(options.machines, len(cases))
    with start_lab(machines=count) as lab:
        pool = Pool(lab, home)
        say(f"{len(cases)} cases, --seed {seed}")
        drawn = any(case.name not in AIMED for case in cases)
        marks = measure(pool) if drawn else [0.0]
        good = attempt_all(pool, cases, marks)
    print(f"RESULT kills tried={len(good)} converged={sum(good)}", flush=True)
    return 0 if all(good) else 1


def main(argv: list[str] | None = None) -> int:
    """See the module's docstring."""
    options = parser().parse_args(argv)
    try:
        if options.keep:
            options.keep.mkdir(parents=True, exist_ok=True)
            return run(options, options.keep.resolve())
        with TemporaryDirectory() as place:
            return run(options, Path(place))
    except (LabError, Wrong) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
