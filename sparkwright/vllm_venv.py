"""vLLM: which environment a machine should have for a profile, and what is missing for it. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sparkwright import uv_client
from sparkwright.digest import DIGEST_CHARS, digest
from sparkwright.jobs import Job, JobPlan
from sparkwright.paths import LIB
from sparkwright.resources import Command, Spec, State, quote
from sparkwright.small_venv import damage, switch
from sparkwright.spread import Item
from sparkwright.vllm_profiles import Profile, as_data

HEX = "[0-9a-f]" * DIGEST_CHARS


@dataclass(frozen=True)
class Wanted:
    """What the environment depends on, from the fleet's data.

    + requirements: the closed wheel set, a line for each wheel, every one with its hash
    + patches: as vllm_profiles.load_patch gives them
    + uv: version of uv that makes it
    + arch: as `uname -m` says
    + keep: environments of the profile that stay, the current one included
    + find_links: directories on the machine with wheels; with them no index is asked
    + index: the only index that is asked; None: as pip and uv are set up there
    + places: (address in the requirements, address where the machine gets that wheel)
    """

    profile: Profile
    requirements: str
    patches: tuple[Mapping[str, Any], ...]
    uv: str
    arch: str
    prefix: str
    user: str
    keep: int
    find_links: tuple[str, ...] = ()
    index: str | None = None
    places: tuple[tuple[str, str], ...] = ()

    @property
    def root(self) -> str:
        """Where environments live."""
        return f"{self.prefix}/vllm"

    @property
    def inputs(self) -> dict[str, object]:
        """Everything the result depends on. Python by its minor version alone: a venv only links
        to the machine's, and a security update of that must not fetch gigabytes."""
        return {
            "requirements": self.requirements,
            "python": self.profile.python,
            "arch": self.arch,
            "patches": [dict(patch) for patch in self.patches],
            "checks": as_data(self.profile.checks),
            "uv": self.uv,
        }

    @property
    def name(self) -> str:
        """Directory of the environment below root."""
        return f"{self.profile.name}-{digest(self.inputs)}"


def probes(wanted: Wanted) -> list[Spec]:
    """Questions: which environment is current, which are there, is the wanted one as installed."""
    own = f"{wanted.root}/{wanted.profile.name}"
    words = [f"{LIB}/make_vllm.py", "check", f"{wanted.root}/{wanted.name}"]
    return [
        {"kind": "path", "path": own},
        {"kind": "listing", "pattern": f"{own}-{HEX}/.stamp"},
        {"kind": "program", "argv": words},
        {"kind": "run", "argv": ["sh", "-c", ". /etc/os-release; echo $ID $VERSION_ID; uname -m"]},
    ]


def plan(wanted: Wanted, states: Sequence[State]) -> JobPlan:
    """What has to happen so that {prefix}/vllm/<profile> is the wanted environment, whole."""
    root, name = wanted.root, wanted.name
    dest = f"{root}/{name}"
    stamps = [path.rsplit("/", 2)[1] for path in states[1].get("paths", [])]
    wrong = damage("vLLM", states[2]) if name in stamps else [f"{dest}: no environment of this set"]
    drift, after = list(wrong), []
    if not wrong and json.loads(states[2]["out"]).get("stale"):
        drift.append(f"{dest}/.introspect.json: is missing, or of another introspector")
        after.append(Command(f"python3 {LIB}/make_vllm.py introspect {quote(dest)}"))
    if states[0].get("target") != name:
        points = states[0].get("target", "nothing")
        drift.append(f"{root}/{wanted.profile.name}: points to {points}, not {name}")
    item = item_of(wanted, states[3])
    if not drift:
        return JobPlan(item=item)
    after += [switch(root, wanted.profile.name, name), Command(_prune(wanted, stamps))]
    if not wrong:
        return JobPlan(tuple(drift), None, (), tuple(after), item=item)
    before = (Command(f"mkdir -p {quote(root)}"),)
    return JobPlan(tuple(drift), job_of(wanted), before, tuple(after), item=item)


def item_of(wanted: Wanted, alike: State) -> Item:
    """What machines with the same system can copy: the environment, at the same place."""
    place = f"{wanted.root}/{wanted.name}"
    key = digest({"place": place, "alike": alike.get("out", "")})
    return Item(f"vllm-{key}", f"the vLLM environment {wanted.profile.name}", place)


def job_of(wanted: Wanted) -> Job:
    """The transient unit that makes the environment; uv fetches what the lock names."""
    dest = f"{wanted.root}/{wanted.name}"
    hashes = {p["name"]: digest(dict(p)) for p in wanted.patches}
    text, own = wanted.requirements, digest({"text": wanted.requirements})
    for old, new in wanted.places:
        text = text.replace(f" @ {old} ", f" @ {new} ")
    spec = {
        "profile": wanted.profile.name,
        "dest": dest,
        "requirements": text,
        "wheels": sum("--hash=" in line for line in text.splitlines()),
        "python": wanted.profile.python,
        "uv": uv_client.program(wanted.prefix),
        "user": wanted.user,
        "cache": f"{wanted.root}/.cache-{wanted.profile.name}",
        "find_links": list(wanted.find_links),
        "no_index": bool(wanted.find_links),
        "patches": [dict(patch) for patch in wanted.patches],
        "checks": as_data(wanted.profile.checks),
        "inputs": {**wanted.inputs, "requirements": own, "patches": hashes},
        **({"index": wanted.index} if wanted.index else {}),
    }
    return Job(
        label=f"vllm-{wanted.profile.name}",
        digest=digest(wanted.inputs),
        stamp=f"{dest}/.stamp",
        program=(f"{LIB}/make_vllm.py",),
        spec=spec,
        properties=("Nice=5", "OOMScoreAdjust=500"),
    )


def _prune(wanted: Wanted, stamps: Sequence[str]) -> str:
    """Remove all but the newest environments of the profile, and what cut installations left.

    Never the current one or one out of which a process has libraries open: its program is the
    system's Python, so /proc/PID/exe would not tell.
    """
    root, own = quote(wanted.root), quote(wanted.profile.name)
    others = [name for name in stamps if name != wanted.name]
    old = [quote(f"{wanted.root}/{name}") for name in others[max(wanted.keep - 1, 0) :]]
    return (
        f"for d in {root}/{own}-{HEX} {root}/{own}-{HEX}.new {root}/{own}-{HEX}.old; do "
        f'[ -d "$d" ] || continue; case "$d" in {"|".join(old) or "-"}) ;; '
        '*) if [ -e "$d/.stamp" ]; then continue; fi ;; esac; '
        'if ! grep -qsF " $d/" /proc/[0-9]*/maps; then rm -rf "$d"; fi; done'
    )
