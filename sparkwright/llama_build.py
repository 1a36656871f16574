"""llama.cpp: which build a machine should have, and what is missing for it. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from sparkwright.digest import digest
from sparkwright.jobs import Job, JobPlan
from sparkwright.llama_flags import Wanted, cmake_flags, newest_nvcc, nvcc_probe
from sparkwright.paths import LIB
from sparkwright.resources import Command, Fetched, Spec, State, quote
from sparkwright.spread import Item

# What the build knows, beside it; engine_llama.py reads it.
SERVER, FACTS = "bin/llama-server", ".introspect.json"
# What must be the same so that one machine's programs run on another: the system, and the kind of
# processor, which llama.cpp compiles for (GGML_NATIVE).
ALIKE = (
    ". /etc/os-release; echo $ID $VERSION_ID; "
    "grep -E '^(flags|Features|CPU implementer|CPU part|model name)' /proc/cpuinfo | sort -u"
)


def probes(wanted: Wanted) -> list[Spec]:
    """Questions: which nvcc and compiler, which build is current, which builds are there."""
    root = f"{wanted.prefix}/llama.cpp"
    return [
        nvcc_probe(),
        {"kind": "run", "argv": ["c++", "--version"]},
        {"kind": "path", "path": f"{root}/current"},
        {"kind": "run", "argv": ["uname", "-m"]},
        {"kind": "listing", "pattern": f"{root}/*/.stamp"},
        {"kind": "program", "argv": [f"{LIB}/build_check.py", root]},
        {"kind": "run", "argv": ["sh", "-c", ALIKE]},
    ]


def inputs_of(wanted: Wanted, states: Sequence[State]) -> dict[str, object]:
    """Everything the result depends on: the digest is taken over this."""
    nvcc, version = newest_nvcc(states[0]) if wanted.backend == "cuda" else ("", "")
    compiler = states[1].get("out", "").splitlines()
    return {
        "source": wanted.source.sha256,
        "commit": wanted.source.commit,
        "cmake": cmake_flags(wanted, nvcc),
        "nvcc": version,
        "compiler": compiler[0] if compiler else "absent",
        "arch": states[3].get("out", "").strip(),
        "targets": list(wanted.targets),
    }


def plan(wanted: Wanted, states: list[State]) -> JobPlan:
    """What has to happen so that {prefix}/llama.cpp/current is the wanted build, whole."""
    inputs = inputs_of(wanted, states)
    name = digest(inputs)
    root = f"{wanted.prefix}/llama.cpp"
    dest = f"{root}/{name}"
    built = f"{dest}/.stamp" in states[4].get("paths", [])
    damage = [line for line in wrong_files(states[5]) if line.startswith(f"{dest}/")]
    unread = f"{dest}/{FACTS}" in _lines(states[5], "unread") and not damage
    drift = [] if built else [f"{dest}: no build of these inputs"]
    drift += damage
    drift += [f"{dest}/{FACTS}: missing or broken"] if unread else []
    if states[2].get("target") != name:
        drift.append(f"{root}/current: points to {states[2].get('target', 'nothing')}, not {name}")
    item = item_of(dest, inputs, states[6])
    if not drift:
        return JobPlan(item=item)
    after = (
        *([ask_again(dest)] if unread else []),
        Command(
            f"ln -sfn {name} {quote(root)}/.current && mv -fT {quote(root)}/.current "
            f"{quote(root)}/current"
        ),
        Command(prune(root, name, states, wanted.keep)),
    )
    if built and not damage:
        return JobPlan(tuple(drift), None, (), after, item=item)
    return JobPlan(tuple(drift), build_job(wanted, inputs, name), fetch(wanted), after, item=item)


def item_of(dest: str, inputs: Mapping[str, object], alike: State) -> Item:
    """What machines of equal inputs and of the same kind can copy."""
    key = digest({"inputs": inputs, "place": dest, "alike": alike.get("out", "")})
    return Item(f"llama-{key}", "the build of llama.cpp", dest)


def ask_again(dest: str) -> Command:
    """Write down what an installed build knows: nothing has to be compiled for that."""
    return Command(
        f"python3 {LIB}/introspect_llama.py {quote(f'{dest}/{SERVER}', f'{dest}/{FACTS}')}"
    )


def wrong_files(state: State) -> list[str]:
    """Damaged files over all builds, from the answers of `build_check.py`."""
    return _lines(state, "wrong")


def _lines(state: State, key: str) -> list[str]:
    lines = [line for line in state.get("out", "").splitlines() if line.startswith("{")]
    return [what for line in lines for what in json.loads(line).get(key, [])]


def fetch(wanted: Wanted) -> tuple[Command, ...]:
    """Commands that bring the source archive to the machine."""
    path = archive_path(wanted)
    return (
        Command(f"mkdir -p {quote(wanted.prefix)}/src"),
        *Fetched(path, wanted.source.url, wanted.source.sha256, wanted.source.size).fix([{}]),
    )


def archive_path(wanted: Wanted) -> str:
    """Where the source archive lies on the machine; the name holds the commit."""
    return f"{wanted.prefix}/src/llama.cpp-{wanted.source.commit}.tar.gz"


def build_job(wanted: Wanted, inputs: Mapping[str, object], name: str) -> Job:
    """The transient unit that builds; PrivateNetwork proves that the build asks nobody."""
    dest = f"{wanted.prefix}/llama.cpp/{name}"
    spec = {
        "archive": archive_path(wanted),
        "commit": wanted.source.commit,
        "cmake": inputs["cmake"],
        "targets": list(wanted.targets),
        "jobs": wanted.jobs,
        "env": dict(wanted.env),
        "user": wanted.user,
        "work": f"{wanted.work_dir}/llama.cpp",
        "dest": dest,
        "inputs": inputs,
    }
    return Job(
        label="llama.cpp",
        digest=name,
        stamp=f"{dest}/.stamp",
        program=(f"{LIB}/build_llama.py",),
        spec=spec,
        properties=("PrivateNetwork=yes", "Nice=5", "OOMScoreAdjust=500"),
    )


def prune(root: str, current: str, states: Sequence[State], keep: int) -> str:
    """Remove all but the newest builds, and what interrupted builds of other inputs left.

    Never the current one or one that a process still runs.
    """
    stamps = [path.rsplit("/", 2)[1] for path in states[4].get("paths", [])]
    others = [name for name in stamps if name not in (current, "current")]
    old = [f"{root}/{name}" for name in others[max(keep - 1, 0) :]]
    return (
        f"for d in {quote(root)}/*; do "
        f'case "$d" in {"|".join(map(quote, old)) or "-"}) ;; '
        '*) if [ -L "$d" ] || [ -e "$d/.stamp" ]; then continue; fi ;; esac; '
        'if ! ls -l /proc/[0-9]*/exe 2>/dev/null | grep -qF " $d/"; then rm -rf "$d"; fi; done'
    )
