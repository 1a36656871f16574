"""`make test-airgap`: converge machines with no way out, from a bundle and from a mirror."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.airgap.place import MIRROR_PORT, PORTS, Site, mirror, no_route
from tests.airgap.rows import ROWS, Rows
from tests.e2e import support
from tests.lab.host import LabError, cache_dir
from tests.lab.lab import Lab, start_lab
from tests.lab.machine import Machine


def say(text: str) -> None:
    """A heading between the programs' own output."""
    print(f"\n=== {text}", flush=True)


def converge(site: Site, machine: Machine, fleet: Path, *ports: int) -> tuple[int, int]:
    """(changes of a second run, packets outside) of two converges that must succeed."""
    assert no_route(machine) == "", "the machine has a way out"
    cable = site.cable(machine, *ports)
    try:
        support.converge(fleet, "--limit", machine.name)
        again = support.converge(fleet, "--limit", machine.name)
    finally:
        cable.stop()
    port, model = PORTS[machine.name]
    answer = support.ask(machine, port, model).strip()
    kinds = sorted(set(cable.outside))
    print(f"{machine.name}: it says {answer!r}; second run changed {again['changed']} "
          f"{again['changes'] or ''}; {cable.inside} packets to the laptop, "
          f"{len(cable.outside)} to others {kinds or ''}")  # fmt: skip
    assert answer == "SPARK"
    assert cable.inside, "nothing was counted at all"
    return int(again["changed"]), len(cable.outside)


def airgap(lab: Lab, folder: Path) -> int:
    """Everything on one lab; returns an exit status."""
    site = Site(lab, folder)
    one, two = lab.machines
    say("connected: sparkwright lock --debs, bundle, bundle verify")
    site.fill()
    say("cut off: upstream ends")
    site.cut_off()
    say("from: bundle")
    bundle = converge(site, one, site.say_from("bundle", path=str(site.bundle)))
    say("from: mirror")
    with mirror(site, site.bundle, MIRROR_PORT) as url:
        mirrored = converge(site, two, site.say_from("mirror", url=url), MIRROR_PORT)
    say("bad input")
    wrong = Rows(site, one).run()
    changed, outside = bundle[0] + mirrored[0], bundle[1] + mirrored[1]
    good = len(ROWS) - len(wrong)
    print(
        f"RESULT airgap bundle=ok mirror=ok second_run_changed={changed} "
        f"outside_packets={outside} bad_inputs={good}/{len(ROWS)}"
    )
    return 1 if changed or outside or wrong else 0


def main() -> int:
    """Boot two machines, run everything, take all down."""
    try:
        # Beside the lab's cache: a bundle has some hundred MB, and /tmp may be memory.
        with start_lab(machines=2) as lab, TemporaryDirectory(dir=cache_dir()) as place:
            return airgap(lab, Path(place))
    except LabError as error:
        print(error, file=sys.stderr)
    except AssertionError as error:
        print(f"airgap: {error}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
