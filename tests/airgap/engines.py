"""A real vLLM and a container on a machine with no way out: from a bundle, then from a mirror.

vLLM's wheels are those of `make test-vllm` (tests/vllm/wheels.py), and the image is fetched from
the lab's registry into the bundle, as one of a real registry is.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import yaml

from tests.airgap.place import MIRROR_PORT, Site, converge, heading, mirror, quiet
from tests.lab.lab import Lab
from tests.lab.machine import Machine
from tests.vllm import site as vllm

CONTAINER = "tiny-llama-container"
ANSWERS = {vllm.PORT: vllm.RECIPE, 8082: "tiny-llama"}


def prove(lab: Lab, folder: Path) -> Iterator[tuple[int, int]]:
    """(changes of a second run, packets outside) for each of the two words."""
    (machine,) = lab.machines
    site = fleet(lab, folder, machine)
    heading("vLLM and a container, connected: lock --debs, bundle, bundle verify")
    site.fill()
    site.cut_off()
    heading("vLLM and a container, from: bundle")
    yield converge(site, machine, site.say_from("bundle", path=str(site.bundle)), ANSWERS)
    offline(machine)
    heading("vLLM and a container, from: mirror, on an empty machine")
    machine.reset()
    quiet(machine)
    with mirror(site, site.bundle, MIRROR_PORT) as url:
        yield converge(site, machine, site.say_from("mirror", url=url), ANSWERS, MIRROR_PORT)
    offline(machine)


def fleet(lab: Lab, folder: Path, machine: Machine) -> Site:
    """`make test-vllm`'s fleet and a container, whose image the lock has by digest alone."""
    made = vllm.prepare(lab, folder)
    values = yaml.safe_load(made.fleet.read_text())
    values["sparks"][machine.name]["serve"].append(CONTAINER)
    made.fleet.write_text(yaml.safe_dump(values, sort_keys=False))
    path = folder / "artifacts.lock.yaml"
    lock = yaml.safe_load(path.read_text())
    del lock["artifacts"]["lab-llama"]["archive"]
    path.write_text(yaml.safe_dump(lock))
    return Site(lab, folder, fleet=made.fleet)


def offline(machine: Machine) -> None:
    """The services talk to nobody else, by the program that docs/air-gap.md names."""
    for unit in (vllm.UNIT, f"llm-{CONTAINER}.service"):
        done = machine.ssh(f"sudo python3 /opt/sparkwright/lib/outbound.py {unit}", check=False)
        assert done.returncode == 0, f"{unit}: {done.stdout}{done.stderr}"
