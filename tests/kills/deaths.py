"""How a first converge dies, and what one more run has to reach."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.kills import proofs
from tests.kills.cases import Moment
from tests.kills.program import CONVERGE_S, NOTICE_S, Converge
from tests.lab.machine import Machine


@dataclass(frozen=True)
class Site:
    """One machine for one case after another.

    + fleet: a sparks.yaml that names this machine alone
    + home: folder for logs
    """

    machine: Machine
    fleet: Path
    home: Path


class Wrong(Exception):
    """A case that did not end as it must; the message says in what way."""


def laptop(site: Site, run: Converge) -> str:
    """The laptop's side is gone at once; what it had started on the machine goes on."""
    run.kill()
    return "killed"


def cable(site: Site, run: Converge) -> str:
    """The cable is pulled; the laptop must notice and say so, then the cable is put back."""
    site.machine.link_down()
    try:
        code = run.end(NOTICE_S)
    finally:
        site.machine.link_up()
    site.machine.wait_ready()  # whoever puts a cable back waits until its light is on
    return _noticed(site, run, code)


def power(site: Site, run: Converge) -> str:
    """The machine is off without a word to the laptop, and is switched on again."""
    site.machine.link_down()  # nothing says goodbye for a machine without power
    site.machine.kill()
    site.machine.link_up()
    site.machine.boot()
    return _noticed(site, run, run.end(NOTICE_S))


def _noticed(site: Site, run: Converge, code: int | None) -> str:
    if code is None:
        raise Wrong(f"the run still hung {NOTICE_S} s after the machine was lost")
    if code == 0:
        return "it was done already"
    if code != 2 or site.machine.name not in run.text():
        raise Wrong(f"the run ended with {code} and does not name the machine:\n{run.text()}")
    last = [line for line in run.text().splitlines() if line.strip()][-1]
    return f"the run ended: {last[:100]}"


DEATHS: dict[str, Callable[[Site, Converge], str]] = {
    "laptop": laptop,
    "cable": cable,
    "power": power,
}


def first(site: Site, name: str) -> list[float]:
    """One undisturbed first converge of a new machine; its marks in seconds, the end last."""
    site.machine.reset()
    run = Converge(site.fleet, site.home / f"{name}.log")
    marks = run.marks()
    code = run.process.returncode
    if code != 0:
        raise Wrong(f"the undisturbed converge ended with {code}:\n{run.text()[-3000:]}")
    found = proofs.wrong(site.machine, site.fleet)
    if found:
        raise Wrong("after an undisturbed converge:\n" + "\n".join(found))
    return marks


def die(site: Site, name: str, kind: str, moment: Moment) -> str:
    """A first converge dies at a moment; then one run. Returns what was seen, or raises Wrong."""
    site.machine.reset()
    run = Converge(site.fleet, site.home / f"{name}-first.log")
    alive = run.run_until(moment)
    doing = _last(run.text())
    seen = DEATHS[kind](site, run)
    mend(site, name)
    return f"{moment}{'' if alive else ', after its end'} ({doing}), {seen}"


def mend(site: Site, name: str) -> str:
    """One run must bring everything in sync; returns what it said."""
    again = Converge(site.fleet, site.home / f"{name}-again.log")
    code = again.end(CONVERGE_S)
    if code != 0:
        raise Wrong(f"the run afterwards ended with {code}:\n{again.text()[-4000:]}")
    found = proofs.wrong(site.machine, site.fleet)
    if found:
        raise Wrong("the run afterwards left:\n" + "\n".join(found))
    return again.text()


def _last(text: str) -> str:
    """The operation that pyinfra was at: the last heading of its log."""
    heads = [line for line in text.splitlines() if line.strip().startswith("-->")]
    return heads[-1].strip("-> \t") if heads else "before any operation"


def change(site: Site, serve: list[object], flag: str) -> None:
    """Rewrite what the machine's fleet file asks for.

    + flag: one more for cmake, or nothing
    """
    fleet = yaml.safe_load(site.fleet.read_text())
    fleet["sparks"][site.machine.name]["serve"] = serve
    if flag:
        fleet["defaults"]["settings"]["llama_cpp_cmake_flags"].append(flag)
    site.fleet.write_text(yaml.safe_dump(fleet, sort_keys=False))
