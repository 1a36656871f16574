"""A small Python environment on a machine, made by pip from pinned wheels. Pure.

Made by files/opt/sparkwright/lib/make_venv.py; {prefix}/<label>/current is the one in use.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from sparkwright.digest import digest
from sparkwright.jobs import Job, JobPlan
from sparkwright.paths import LIB
from sparkwright.resources import Command, Spec, State, quote

NAMED = 5  # files that are named before the rest is counted


@dataclass(frozen=True)
class SmallVenv:
    """What an environment is for.

    + label: of its directory and its job
    + title: how messages call it
    + requirements: path on the machine; pins every wheel by hash
    + proof: Python text that fails unless the environment works and has the wanted version
    """

    label: str
    title: str
    requirements: str
    proof: str

    def probes(self, prefix: str) -> list[Spec]:
        """Questions: which Python, which environment is current, are its files as installed."""
        current = f"{prefix}/{self.label}/current"
        return [
            {"kind": "run", "argv": ["python3", "--version"]},
            {"kind": "path", "path": current},
            {"kind": "path", "path": f"{current}/.stamp", "text": True},
            {"kind": "program", "argv": [f"{LIB}/make_venv.py", "check", current]},
        ]

    def plan(
        self,
        prefix: str,
        requirements_sha256: str,
        states: Sequence[State],
        index: str | None = None,
    ) -> JobPlan:
        """
        What has to happen so that {prefix}/<label>/current is the wanted environment.

        + requirements_sha256: of the requirements file
        + index: where its wheels are; None: as pip is set up there
        """
        python = states[0].get("out", "").strip()
        name = digest({"requirements": requirements_sha256, "python": python})
        root = f"{prefix}/{self.label}"
        linked = states[1].get("target") == name
        stamped = states[2].get("text", "").strip() == name
        if linked and stamped:
            drift = damage(self.title, states[3])
        else:
            drift = [f"{root}/current: no environment {name}"]
        if not drift:
            return JobPlan()
        prune = (
            f"for d in {quote(root)}/*/; do d=${{d%/}}; case ${{d##*/}} in current|{name}) ;; "
            '*) rm -rf "$d" ;; esac; done'
        )
        return JobPlan(
            tuple(drift),
            self._job(f"{root}/{name}", name, index),
            (Command(f"mkdir -p {quote(root)}"),),
            (switch(root, "current", name), Command(prune)),
        )

    def _job(self, dest: str, name: str, index: str | None) -> Job:
        more = {"index": index} if index else {}
        return Job(
            label=self.label,
            digest=name,
            stamp=f"{dest}/.stamp",
            program=(f"{LIB}/make_venv.py",),
            spec={"requirements": self.requirements, "dest": dest, "proof": self.proof, **more},
        )


def switch(root: str, link: str, name: str) -> Command:
    """Point {root}/<link> to {root}/<name> in one step."""
    beside = quote(f"{root}/.{link}")
    return Command(f"ln -sfn {quote(name)} {beside} && mv -fT {beside} {quote(f'{root}/{link}')}")


def damage(title: str, state: State) -> list[str]:
    """Phrases of a program's `check`; a removed package has hundreds of files, a few are named."""
    try:
        wrong: list[str] = json.loads(state.get("out", ""))["wrong"]
    except ValueError:
        return [f"{title}: its files could not be looked at"]
    more = [f"{title}: {len(wrong) - NAMED} more files differ"] if len(wrong) > NAMED else []
    return [*wrong[:NAMED], *more]
