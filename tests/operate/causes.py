"""Every cause that `sparkwright doctor` can name, provoked on a lab machine, and no other named.

`python -m tests.operate.causes [TEXT…]`: those whose cause holds one of the texts.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

from sparkwright.doctor import causes
from tests.lab.host import LabError
from tests.lab.lab import start_lab
from tests.lab.machine import Machine

from . import causes_lines, causes_more, causes_real
from .patient import Found, Patient, converged
from .scene import Scene

# Boots come last: what the boot before said is told in the next one.
SCENES: tuple[Scene, ...] = (*causes_real.SCENES, *causes_lines.SCENES, *causes_more.SCENES)


def play(patient: Patient, scene: Scene) -> Found:
    """Provoke, look, mend; what was found, or why it could not be played: the others go on."""
    try:
        with scene.act(patient) as fleet:
            return patient.doctor(*scene.words, fleet=fleet)
    except (AssertionError, LabError) as error:
        return {("not played", str(error)[-1000:])}


class Site(Protocol):
    """A converged lab whose first machine serves the usual recipe."""

    one: Machine
    fleet: Path


def provoke(site: Site) -> tuple[int, int]:
    """How many causes were provoked and named alone, and how many doctor can name."""
    return len(played(Patient(site.one, site.fleet), SCENES)), len(causes())


def played(patient: Patient, scenes: Sequence[Scene]) -> set[str]:
    """Play scenes; the causes that were provoked and named alone.

    A line for each scene, with what was expected and found where the two differ.
    """
    good: set[str] = set()
    assert patient.doctor() == set(), "the machine is not well to begin with"
    for scene in scenes:
        began = time.monotonic()
        found = play(patient, scene)
        fine = found == scene.expect
        good |= {cause for _, cause in scene.expect} if fine else set()
        names = "; ".join(sorted(cause for _, cause in scene.expect)) or "nothing"
        print(f"{'ok' if fine else 'FAILED':6} {time.monotonic() - began:4.0f} s  {names}",
              flush=True)  # fmt: skip
        if not fine:
            print(f"       found {sorted(found)}", flush=True)
    return good


def on_a_lab(scenes: Sequence[Scene] = SCENES) -> tuple[int, int]:
    """As `provoke`, on a lab of its own."""
    with start_lab(machines=1) as lab, TemporaryDirectory() as place:
        return len(played(converged(lab, Path(place)), scenes)), len(causes())


def main(texts: Sequence[str]) -> int:
    """Provoke; 1 when something was not named, or not alone."""
    chosen = [s for s in SCENES if not texts or any(t in c for t in texts for _, c in s.expect)]
    good, known = on_a_lab(chosen)
    wanted = {cause for scene in chosen for _, cause in scene.expect}
    print(f"doctor: {good} of {known} causes provoked")
    return 0 if good == len(wanted) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
