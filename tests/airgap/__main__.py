"""`make test-airgap`: converge machines with no way out, from a bundle and from a mirror.

Two labs after each other: one machine with a real vLLM and a container (engines.py), then two with
llama.cpp, bad input and a library. `python -m tests.airgap engines` and `… main` run one of them.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.airgap import engines, shelf
from tests.airgap.place import MIRROR_PORT, PORTS, Site, converge, heading, mirror
from tests.airgap.rows import ROWS, Rows
from tests.lab.host import LabError, cache_dir
from tests.lab.lab import Lab, start_lab
from tests.lab.setting import Bind


class Outcome:
    """What came of everything so far."""

    def __init__(self) -> None:
        self.changed, self.outside = 0, 0
        self.good, self.rows = 0, 0

    def add(self, found: tuple[int, int]) -> None:
        """Changes of a second run, and packets outside."""
        self.changed += found[0]
        self.outside += found[1]

    def add_rows(self, wrong: int, rows: int) -> None:
        """Rows of bad input, and how many of them went wrong."""
        self.good += rows - wrong
        self.rows += rows

    @property
    def right(self) -> bool:
        """Whether all is as it must be."""
        return not self.changed and not self.outside and self.good == self.rows

    def __str__(self) -> str:
        return (
            f"RESULT airgap bundle=ok mirror=ok second_run_changed={self.changed} "
            f"outside_packets={self.outside} bad_inputs={self.good}/{self.rows}"
        )


def main_job(lab: Lab, folder: Path, outcome: Outcome) -> None:
    """The main job's fleet, bad input, and a library."""
    site = Site(lab, folder)
    one, two = lab.machines
    heading("connected: sparkwright lock --debs, bundle, bundle verify")
    site.fill()
    heading("cut off: upstream ends")
    site.cut_off()
    heading("from: bundle")
    fleet = site.say_from("bundle", path=str(site.bundle))
    outcome.add(converge(site, one, fleet, dict([PORTS[one.name]])))
    heading("from: mirror")
    with mirror(site, site.bundle, MIRROR_PORT) as url:
        fleet = site.say_from("mirror", url=url)
        outcome.add(converge(site, two, fleet, dict([PORTS[two.name]]), MIRROR_PORT))
        heading("a library: weights on a NAS, used where they lie")
        outcome.add_rows(*shelf.prove(site, two, url))
    heading("bad input")
    outcome.add_rows(len(Rows(site, one).run()), len(ROWS))


def run(parts: list[str], outcome: Outcome) -> None:
    """The parts that were asked for, each with a lab of its own."""
    # Beside the lab's cache: a bundle has some hundred MB, and /tmp may be memory.
    if "engines" in parts:
        with (
            start_lab(machines=1, docker=True) as lab,
            TemporaryDirectory(dir=cache_dir()) as place,
        ):
            for found in engines.prove(lab, Path(place)):
                outcome.add(found)
    if "main" in parts:
        autofs = Bind(Path("/dev/autofs"), "/dev/autofs", read_only=False)
        with (
            start_lab(machines=2, binds=[autofs]) as lab,
            TemporaryDirectory(dir=cache_dir()) as place,
        ):
            main_job(lab, Path(place), outcome)


def main() -> int:
    """Boot machines, run everything, take all down."""
    outcome = Outcome()
    # As some users have it: a key that was read in a greenlet ended pyinfra by SIGSEGV then.
    os.environ["RUST_BACKTRACE"] = "1"
    try:
        run(sys.argv[1:] or ["engines", "main"], outcome)
    except LabError as error:
        print(error, file=sys.stderr)
        return 1
    except AssertionError as error:
        print(f"airgap: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("airgap: interrupted; everything was taken down", file=sys.stderr)
        return 130
    print(outcome)
    return 0 if outcome.right else 1


if __name__ == "__main__":
    sys.exit(main())
