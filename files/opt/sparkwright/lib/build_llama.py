"""Builds llama.cpp on this machine from a source archive: beside, checked, then put in place.

Runs as root in a transient unit without network; cmake and the compiler run as the service user.
    build_llama.py SPEC.json          build
    build_llama.py check DEST         print JSON: are the installed files as they were installed?
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import introspect_llama
from job_progress import Progress

STEP = re.compile(r"^\[(\d+)/(\d+)\] (.*)")
RECORD, FACTS = ".files.json", ".introspect.json"


class BuildError(Exception):
    """One line for the user; the compiler's output is in the unit's journal."""


def unpack(spec: dict[str, Any], work: Path) -> Path:
    """Extract the archive as the service user; returns the directory with CMakeLists.txt."""
    shutil.rmtree(work, ignore_errors=True)
    source = work / "source"
    source.mkdir(parents=True)
    for place in (work, source):
        shutil.chown(place, spec["user"], spec["user"])
    run(["tar", "-xf", spec["archive"], "-C", str(source)], spec, work, lambda _: None)
    found = list(source.glob("**/CMakeLists.txt"))
    if not found:
        raise BuildError(f"{spec['archive']}: no CMakeLists.txt in it; is it llama.cpp's source?")
    return min(found, key=lambda path: len(path.parts)).parent


def run(argv: list[str], spec: dict[str, Any], work: Path, on_line: Callable[[str], None]) -> None:
    """Run one tool as the service user; its output goes to the journal and to `on_line`."""
    env = {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": str(work),
        "LC_ALL": "C.UTF-8",
        "NINJA_STATUS": "[%f/%t] ",
        **spec["env"],
    }
    print("+", *argv, flush=True)
    tool = subprocess.Popen(
        argv,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        user=spec["user"],
        group=spec["user"],
        extra_groups=[],
        env=env,
        cwd=work,
    )
    full = False
    for line in tool.stdout or ():
        print(line, end="", flush=True)
        on_line(line)
        full = full or "No space left on device" in line
    if tool.wait() != 0:
        why = f"; {work}: no space left on its file system, free some" if full else ""
        raise BuildError(f"{Path(argv[0]).name} ended with status {tool.returncode}{why}")


def compile_all(spec: dict[str, Any], work: Path, top: Path, progress: Progress) -> Path:
    """Configure and build; returns the directory of the programs."""
    out = work / "build"
    progress.say("configuring")
    run(["cmake", "-S", str(top), "-B", str(out), *spec["cmake"]], spec, work, lambda _: None)

    def on_line(line: str) -> None:
        if step := STEP.match(line):
            progress.step("compiling", int(step[1]), int(step[2]), began)

    began = time.monotonic()
    jobs = str(spec["jobs"] or os.cpu_count() or 1)
    run(
        ["cmake", "--build", str(out), "-j", jobs, "--target", *spec["targets"]],
        spec,
        work,
        on_line,
    )
    return out / "bin"


def check_program(program: Path, spec: dict[str, Any]) -> None:
    """The program must run and say who it is: cmake's status proves nothing (llama.cpp#23156)."""
    if not program.exists():
        raise BuildError(f"{program.name} was not built although cmake reported success")
    shown = subprocess.run(
        [program, "--version"],
        capture_output=True,
        text=True,
        check=False,
        user=spec["user"],
        group=spec["user"],
        extra_groups=[],
    )
    text = shown.stdout + shown.stderr
    if shown.returncode != 0 or spec["commit"][:9] not in text:
        raise BuildError(f"{program.name} --version does not show {spec['commit'][:9]}: {text!r}")


def stat_of(directory: Path) -> dict[str, list[int]]:
    """Size, mtime and inode of every installed file."""
    found = {}
    for path in sorted(directory.rglob("*")):
        if path.is_file() and path.name not in (RECORD, FACTS, ".stamp", "BUILD.json"):
            info = path.lstat()
            found[str(path.relative_to(directory))] = [info.st_size, info.st_mtime_ns, info.st_ino]
    return found


def install(spec: dict[str, Any], built: Path) -> None:
    """Copy programs and libraries, owned by root; the stamp is written last."""
    dest = Path(spec["dest"])
    beside = dest.with_name(dest.name + ".new")
    for old in (beside, dest):
        shutil.rmtree(old, ignore_errors=True)
    (beside / "bin").mkdir(parents=True)
    for path in sorted(built.iterdir()):
        if path.name in spec["targets"] or ".so" in path.name:
            shutil.copy2(path, beside / "bin" / path.name, follow_symlinks=False)
    for path in [beside, *beside.rglob("*")]:
        os.chown(path, 0, 0, follow_symlinks=False)
    known = introspect_llama.facts(str(beside / "bin" / spec["targets"][0]))
    (beside / FACTS).write_text(json.dumps(known))
    (beside / RECORD).write_text(json.dumps(stat_of(beside)))
    (beside / "BUILD.json").write_text(json.dumps(spec["inputs"], indent=1, sort_keys=True))
    os.sync()
    beside.rename(dest)
    Path(spec["stamp"]).write_text(spec["digest"])
    os.sync()


def check(dest: str) -> int:
    """Compare the installed files with what was installed; prints JSON."""
    place = Path(dest)
    try:
        wanted = json.loads((place / RECORD).read_text())
        stamped = (place / ".stamp").read_text().strip() == place.resolve().name
    except (OSError, ValueError):
        wanted, stamped = {}, False
    if not stamped:
        print(json.dumps({"wrong": [f"{place}/.stamp: does not vouch for this build"]}))
        return 0
    have = stat_of(place)
    names = sorted(set(wanted) | set(have))
    wrong = [
        f"{place / n}: {'changed' if n in have else 'missing'}"
        for n in names
        if wanted.get(n) != have.get(n)
    ]
    print(json.dumps({"wrong": wrong, "unread": unread(place)}))
    return 0


def unread(place: Path) -> list[str]:
    """The file of what the build knows, when it is absent (an older build) or no such file."""
    try:
        whole = "flags" in json.loads((place / FACTS).read_text())
    except (OSError, ValueError):
        whole = False
    return [] if whole else [str(place / FACTS)]


def main(argv: list[str]) -> int:
    """Build per the spec file, or check an installed build."""
    if argv[0] == "check":
        return check(argv[1])
    spec = json.loads(Path(argv[0]).read_text())
    progress, work = Progress(spec["progress"]), Path(spec["work"])
    try:
        progress.say("unpacking")
        top = unpack(spec, work)
        built = compile_all(spec, work, top, progress)
        progress.say("checking")
        check_program(built / spec["targets"][0], spec)
        progress.say("installing")
        install(spec, built)
    except (BuildError, OSError, introspect_llama.NoServer) as error:
        progress.say("failed", f"{error}")
        print(f"build: {error}", file=sys.stderr)
        return 1
    shutil.rmtree(work, ignore_errors=True)
    progress.say("done")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
