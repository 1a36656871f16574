"""A deploy file: long work with a secret, done by the operation that builds and downloads."""

from __future__ import annotations

import os

from sparkwright import interrupts
from sparkwright.job_operations import detached
from sparkwright.jobs import Job, JobPlan
from sparkwright.resources import State

STAMP = "/var/tmp/nap.stamp"
JOB = Job(
    label="nap",
    digest="0123456789ab",
    program=("/var/tmp/nap.py",),
    spec={},
    stamp=STAMP,
    user="spark",
    secret=os.environ["TRAP_SECRET"],
)


def plan(states: list[State]) -> JobPlan:
    """Nap when the stamp does not say that it was done."""
    done = states[0].get("text") == JOB.digest
    return JobPlan() if done else JobPlan(("nap: not done",), JOB)


interrupts.listen()  # as tasks/preflight.py does
detached(name="Nap", specs=[{"kind": "path", "path": STAMP, "text": True}], plan=plan)
