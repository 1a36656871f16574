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
from sparkwright.spread import Item

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


def probes(spec: Mapping[str, Any], deep: bool, user: str = "root") -> list[Spec]:
    """
    One question: the agent's own verdict, by stat stamp or by hashing everything.

    + user: who asks; the account that will read the files sees whether it can
    """
    argv = [f"{LIB}/weights.py", "status", "-", *(["--deep"] if deep else [])]
    return [{"kind": "program", "argv": argv, "stdin": json.dumps(spec), "user": user}]


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
    # Files of a library are links there: a machine can give what it holds itself.
    item = None if weights.library else item_of(weights, spec)
    if seen["ok"]:
        return JobPlan(notes=notes, item=item)
    drift = [f"{weights.directory}: missing {name}" for name in seen["missing"]]
    drift += [f"{weights.directory}: changed {name}" for name in seen["changed"]]
    drift = drift or [f"{weights.directory}: no valid manifest"]
    return JobPlan(
        tuple(drift),
        _job(weights, spec, user, token),
        _before(weights, spec, user, seen),
        (),
        notes,
        item,
    )


def item_of(weights: Weights, spec: Mapping[str, Any]) -> Item:
    """What other machines can copy: the same files in a directory of the same name."""
    files = sorted((str(file["path"]), int(file["size"])) for file in spec["files"])
    return Item(f"weights-{_name(spec)}", weights.snapshot.repo, weights.directory, tuple(files))


def _before(
    weights: Weights, spec: Mapping[str, Any], user: str, seen: Mapping[str, Any]
) -> tuple[Command, ...]:
    """The directory, owned by the service user; parents stay root's.

    Files that a bundle brought get a second name here, and no second copy. The agent proves them
    like any others; it could not link them itself (fs.protected_hardlinks, proc(5)).
    """
    place = quote(weights.directory)
    made = Command(f"mkdir -p {place} && chown {user}:{user} {place} && {_mend(weights, user)}")
    if not spec.get("held"):
        return (made,)
    wrong = {*seen["missing"], *seen["changed"]}
    names = [f["path"] for f in spec["files"] if f["path"] in wrong or "everything" in wrong]
    link = f"python3 {LIB}/weights_link.py {quote(str(spec['held']), weights.directory, user)}"
    return (made, Command(link, stdin=json.dumps(names)))


def _name(spec: Mapping[str, Any]) -> str:
    return digest({"files": spec["files"], "dir": spec["dir"]})


def _mend(weights: Weights, user: str) -> str:
    """Shell: what lies there is the service account's, and it can reach it.

    Folders between the weights directory and the files, and what an earlier run of another account
    left, are in our own directory; nobody else's are touched (spark-vllm-docker#411).
    """
    place = quote(weights.directory)
    top = quote(weights.directory.rsplit("/weights/", 1)[0] + "/weights")
    own = "\\( -type d -o -links 1 \\)"  # a second name of an adopted file is not only ours
    return (
        f'd={place}; while [ "$d" != {top} ] && [ "$d" != / ]; do chmod a+rx "$d"; '
        f"d=${{d%/*}}; done; "
        f"find {place} {own} ! -user {user} -exec chown -h {user}:{user} {{}} +; "
        f"find {place} -type f -links 1 ! -perm -0444 -exec chmod a+r {{}} +"
    )


def _job(weights: Weights, spec: Mapping[str, Any], user: str, token: str | None) -> Job:
    job = Job(
        label=weights.label,
        digest=_name(spec),
        program=(f"{LIB}/weights.py", "fetch"),
        spec=spec,
        user=user,
        properties=("Nice=5", "OOMScoreAdjust=500"),
        secret=token if weights.gated else None,
    )
    return replace(job, spec={**spec, "token_file": job.secret_file}) if job.secret else job
