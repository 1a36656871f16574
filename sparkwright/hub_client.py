"""The small environment on a machine that holds the pinned huggingface_hub. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence

from sparkwright.digest import digest
from sparkwright.jobs import Job, JobPlan
from sparkwright.paths import LIB
from sparkwright.resources import Command, Spec, State, quote

REQUIREMENTS = "/opt/sparkwright/requirements/hub-client.txt"
NAMED = 5  # files that are named before the rest is counted
PROOF = "import huggingface_hub as h; assert h.__version__ == '2.4.0', h.__version__"


def probes(prefix: str) -> list[Spec]:
    """Questions: which Python, which environment is current, are its files as installed."""
    current = f"{prefix}/hub-client/current"
    return [
        {"kind": "run", "argv": ["python3", "--version"]},
        {"kind": "path", "path": current},
        {"kind": "path", "path": f"{current}/.stamp", "text": True},
        {"kind": "run", "argv": ["python3", f"{LIB}/make_venv.py", "check", current]},
    ]


def plan(prefix: str, requirements_sha256: str, states: Sequence[State]) -> JobPlan:
    """
    What has to happen so that {prefix}/hub-client/current is the wanted environment.

    + requirements_sha256: of the requirements file, which pins every wheel by hash
    """
    python = states[0].get("out", "").strip()
    name = digest({"requirements": requirements_sha256, "python": python})
    root = f"{prefix}/hub-client"
    linked = states[1].get("target") == name
    stamped = states[2].get("text", "").strip() == name
    damage = (
        _damage(states[3]) if linked and stamped else [f"{root}/current: no environment {name}"]
    )
    if not damage:
        return JobPlan()
    switch = (
        f"ln -sfn {name} {quote(root)}/.current && "
        f"mv -fT {quote(root)}/.current {quote(root)}/current"
    )
    prune = (
        f"for d in {quote(root)}/*/; do d=${{d%/}}; case ${{d##*/}} in current|{name}) ;; "
        '*) rm -rf "$d" ;; esac; done'
    )
    return JobPlan(
        tuple(damage),
        _job(f"{root}/{name}", name),
        (Command(f"mkdir -p {quote(root)}"),),
        (Command(switch), Command(prune)),
    )


def _damage(state: State) -> list[str]:
    """Phrases of `make_venv.py check`; a removed package has hundreds of files, a few are named."""
    try:
        wrong: list[str] = json.loads(state.get("out", ""))["wrong"]
    except ValueError:
        return ["Hub client: its files could not be looked at"]
    more = [f"Hub client: {len(wrong) - NAMED} more files differ"] if len(wrong) > NAMED else []
    return [*wrong[:NAMED], *more]


def _job(dest: str, name: str) -> Job:
    return Job(
        label="hub-client",
        digest=name,
        stamp=f"{dest}/.stamp",
        program=(f"{LIB}/make_venv.py",),
        spec={"requirements": REQUIREMENTS, "dest": dest, "proof": PROOF},
    )
