"""What the tests of refusals share: fleets with a fault, runs, and "nothing was changed"."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.e2e import support
from tests.lab import fleetfile
from tests.lab.lab import Lab
from tests.lab.machine import Machine

Edit = Callable[[dict[str, Any]], None]
LLAMA = "tiny-llama-llamacpp"
END = "0 operation(s) changed something; the run FAILED"

# Everything that a deploy may touch; ctime also shows a change that puts the old mtime back.
# Sockets, pipes and what runs belong to /run and are not looked at.
PLACES = "/etc /opt /srv /usr/local /home /root /var/lib/sparkwright /var/lib/dpkg/status"
LISTING = (
    f"sudo find {PLACES} -printf '%p %y %m %U %G %s %T@ %C@ %l\\n' 2>/dev/null | sort; "
    "systemctl list-units --all --plain --no-legend 'llm-*' 'sparkwright-*' | cut -d' ' -f1; "
    "sysctl -n vm.swappiness; getent passwd llm"
)


@dataclass
class Bench:
    """A lab, and a folder for one fleet after the other.

    + serve: what the first machine serves unless a fleet says otherwise
    """

    lab: Lab
    folder: Path
    count: int = 0

    @property
    def one(self) -> Machine:
        return self.lab.machines[0]

    def fleet(self, *wrong: Fault) -> Path:
        """A sparks.yaml of the first machine with these faults."""
        self.count += 1
        place = self.folder / str(self.count)
        (place / "recipes").mkdir(parents=True)
        settings = {key: value for fault in wrong for key, value in fault.settings.items()}
        user = next((fault.user for fault in wrong if fault.user), "spark")
        password = next((fault.password_env for fault in wrong if fault.password_env), None)
        path = self.lab.write_fleet(
            place / "sparks.yaml", {"spark-1": [LLAMA]}, settings,
            user=user, sudo_password_env=password,
        )  # fmt: skip
        fleet = yaml.safe_load(path.read_text())
        fleet["recipes"] = [str(place / "recipes"), *fleet["recipes"]]
        fleet["sparks"] = {"spark-1": fleet["sparks"]["spark-1"]}
        for fault in wrong:
            fault.apply(fleet, place)
        path.write_text(yaml.safe_dump(fleet, sort_keys=False))
        for name, text in [pair for fault in wrong for pair in fault.text.items()]:
            (place / name).write_text(text)
        return path


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong with a fleet, or with its lock or recipes.

    + fleet, lock: change the parsed file
    + recipes: name -> what differs from the lab's recipe for its tiny llama
    + text: file name beside sparks.yaml -> its text, written last
    """

    settings: Mapping[str, object] = field(default_factory=dict)
    fleet: Edit | None = None
    lock: Edit | None = None
    recipes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    text: Mapping[str, str] = field(default_factory=dict)
    user: str | None = None
    password_env: str | None = None

    def apply(self, fleet: dict[str, Any], place: Path) -> None:
        """Write recipes and lock, and change the fleet."""
        for name, changes in self.recipes.items():
            recipe = yaml.safe_load((fleetfile.RECIPES / f"{LLAMA}.yaml").read_text())
            recipe["flags"]["flash-attn"] = "on"  # PyYAML reads a bare one as true
            for key, value in changes.items():
                recipe[key] = {**recipe[key], **value} if isinstance(value, Mapping) else value
            (place / "recipes" / f"{name}.yaml").write_text(yaml.safe_dump(recipe))
        if self.lock:
            path = place / "artifacts.lock.yaml"
            lock = yaml.safe_load(path.read_text())
            self.lock(lock)
            path.write_text(yaml.safe_dump(lock))
        if self.fleet:
            self.fleet(fleet)


def serving(*items: object) -> Fault:
    """The first machine serves these instead."""
    return Fault(fleet=lambda fleet: fleet["sparks"]["spark-1"].update(serve=list(items)))


def ssh(**values: object) -> Fault:
    """The first machine is reached this way."""
    return Fault(fleet=lambda fleet: fleet["sparks"]["spark-1"].update(ssh=values))


def run(
    fleet: Path, *words: str, env: Mapping[str, str] | None = None, below: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """`sparkwright converge` as a user runs it; every refusal here ends with 2.

    + below: a program with its arguments that runs the command (faketime)
    """
    done = support.sparkwright(fleet, "converge", *words, env=env, below=below)
    assert done.returncode == 2, f"rc {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def preflight(
    fleet: Path,
    expected: Sequence[str],
    *words: str,
    env: Mapping[str, str] | None = None,
    below: Sequence[str] = (),
) -> None:
    """The run ends in preflight with exactly these problems, no more and no fewer."""
    done = run(fleet, *words, env=env, below=below)
    assert done.stdout.splitlines() == [*expected, END], done.stdout + done.stderr
    report = [f"preflight found {len(expected)} problem(s):", *[f"  {line}" for line in expected]]
    assert "\n".join(report) in done.stderr, done.stderr
    assert "Traceback" not in done.stderr


def nothing_contacted(fleet: Path, expected: Sequence[str], *words: str) -> None:
    """The run ends before any machine is asked, with exactly these lines."""
    done = run(fleet, *words)
    shown = (done.stdout + done.stderr).splitlines()
    for line in expected:
        assert line in shown, done.stdout + done.stderr
    assert "Traceback" not in done.stderr


@contextmanager
def unchanged(*machines: Machine) -> Iterator[None]:
    """Nothing that a deploy may touch is another after the block."""
    before = [machine.ssh(LISTING, check=False).stdout for machine in machines]
    assert all(len(text.splitlines()) > 500 for text in before)
    yield
    after = [machine.ssh(LISTING, check=False).stdout for machine in machines]
    for old, new in zip(before, after, strict=True):
        assert sorted(set(old.splitlines()) ^ set(new.splitlines())) == []


@contextmanager
def broken(machine: Machine, damage: str, mend: str) -> Iterator[None]:
    """A machine with something wrong, and right again afterwards; both run as root."""
    machine.ssh("sudo sh -eu", input=damage)
    try:
        yield
    finally:
        machine.ssh("sudo sh -eu", input=mend)
