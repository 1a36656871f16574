"""Weights: what a machine should hold, and what is missing. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sparkwright.digest import digest
from sparkwright.jobs import Job, JobPlan
from sparkwright.paths import LIB
from sparkwright.resources import Command, Spec, State, quote
from sparkwright.site import Weights
from sparkwright.sources import weights_source

STAMP = ".sparkwright-stat.json"  # the agent's, see weights_state.py: it names what was verified


def spec_of(weights: Weights, data: Mapping[str, Any], endpoint: str) -> dict[str, Any]:
    """The weights agent's instructions.

    + endpoint: address of the Hub or a mirror of it
    """
    files = [
        {
            "path": f.path,
            "size": f.size,
            **({"sha256": f.sha256} if f.sha256 else {}),
            **({"git_sha1": f.git_sha1} if f.git_sha1 else {}),
        }
        for f in weights.files
    ]
    return {
        "dir": weights.directory,
        "repo": weights.snapshot.repo,
        "commit": weights.snapshot.commit,
        "endpoint": endpoint,
        "hub_python": f"{data['prefix']}/hub-client/current/bin/python",
        "files": files,
        "include": list(weights.include),
        "exclude": list(weights.exclude),
        "license": weights.license,
        "adopt_dirs": list(data["weights_adopt_dirs"]),
        "stall_s": data["weights_stall_s"],
        "token_file": None,
        **_library(weights, data),
        **weights_source(data, weights.snapshot.repo, str(weights.snapshot.commit)),
    }


def _library(weights: Weights, data: Mapping[str, Any]) -> dict[str, Any]:
    copy = bool(data.get("artifacts_library_copy"))
    found = {"library": list(weights.library), "library_copy": copy}
    return found if weights.library else {}


def probes(spec: Mapping[str, Any], deep: bool) -> list[Spec]:
    """One question: the agent's own verdict, by stat stamp or by hashing everything."""
    argv = ["python3", f"{LIB}/weights.py", "status", "/dev/stdin", *(["--deep"] if deep else [])]
    return [{"kind": "run", "argv": argv, "stdin": json.dumps(spec)}]


def verdict(state: State) -> dict[str, Any]:
    """The agent's verdict; an absent agent means that nothing is there yet."""
    try:
        found: dict[str, Any] = json.loads(state.get("out", ""))
    except ValueError:
        return {
            "ok": False,
            "manifest_digest": "",
            "missing": ["everything"],
            "changed": [],
            "leftovers": {},
            "refused": {},
        }
    return {"refused": {}, **found}


def stamped_manifest(state: State) -> str:
    """
    Digest of the manifest that the agent last verified, as its stamp records it; "" without one.

    + state: the probe's answer to the stamp's path, with its text
    """
    try:
        found = json.loads(state.get("text", ""))
        return str(found["manifest_digest"])
    except (ValueError, KeyError, TypeError):
        return ""


def plan(
    weights: Weights, spec: Mapping[str, Any], user: str, token: str | None, states: list[State]
) -> JobPlan:
    """
    What has to happen so that the directory holds the wanted files.

    + token: Hub token for a gated repository, from the laptop's environment
    """
    seen = verdict(states[0])
    notes = tuple(f"{path}: {why}; it is not used" for path, why in sorted(seen["refused"].items()))
    notes += tuple(
        f"{weights.directory}/{name}: {size} bytes of an earlier download, not used; remove it "
        "yourself to free them"
        for name, size in sorted(seen["leftovers"].items())
    )
    if seen["ok"]:
        return JobPlan(notes=notes)
    drift = [f"{weights.directory}: missing {name}" for name in seen["missing"]]
    drift += [f"{weights.directory}: changed {name}" for name in seen["changed"]]
    drift = drift or [f"{weights.directory}: no valid manifest"]
    return JobPlan(
        tuple(drift),
        _job(weights, spec, user, token),
        _before(weights, spec, user, seen),
        (),
        notes,
    )


def _before(
    weights: Weights, spec: Mapping[str, Any], user: str, seen: Mapping[str, Any]
) -> tuple[Command, ...]:
    """The directory, owned by the service user; parents stay root's.

    Files that a bundle brought get a second name here, and no second copy. The agent proves them
    like any others; it could not link them itself (fs.protected_hardlinks, proc(5)).
    """
    place = quote(weights.directory)
    made = Command(f"mkdir -p {place} && chown {user}:{user} {place}")
    if not spec.get("held"):
        return (made,)
    wrong = {*seen["missing"], *seen["changed"]}
    names = [f["path"] for f in spec["files"] if f["path"] in wrong or "everything" in wrong]
    link = f"python3 {LIB}/weights_link.py {quote(str(spec['held']), weights.directory, user)}"
    return (made, Command(link, stdin=json.dumps(names)))


def _job(weights: Weights, spec: Mapping[str, Any], user: str, token: str | None) -> Job:
    name = digest({"files": spec["files"], "dir": spec["dir"]})
    job = Job(
        label=weights.label,
        digest=name,
        program=(f"{LIB}/weights.py", "fetch"),
        spec=spec,
        user=user,
        properties=("Nice=5", "OOMScoreAdjust=500"),
        secret=token if weights.gated else None,
    )
    return replace(job, spec={**spec, "token_file": job.secret_file}) if job.secret else job
