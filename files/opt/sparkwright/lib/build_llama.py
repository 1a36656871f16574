"""Builds llama.cpp on this machine from a source archive: beside, checked, then put in place.

Runs as root in a transient unit without network; cmake and the compiler run as the service user.
    build_llama.py SPEC.json          build, or copy another machine's build ("spread" in SPEC)
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
from build_check import FACTS, RECORD, check, stat_of
from job_progress import Progress
from spread_job import Spread
from spread_tree import CopyError, receive

STEP = re.compile(r"^\[(\d+)/(\d+)\] (.*)")


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


def install(spec: dict[str, Any], built: Path) -> None:
    """Copy programs and libraries, owned by root."""
    dest = Path(spec["dest"])
    beside = dest.with_name(dest.name + ".new")
    shutil.rmtree(beside, ignore_errors=True)
    (beside / "bin").mkdir(parents=True)
    for path in sorted(built.iterdir()):
        if path.name in spec["targets"] or ".so" in path.name:
            shutil.copy2(path, beside / "bin" / path.name, follow_symlinks=False)
    for path in [beside, *beside.rglob("*")]:
        os.chown(path, 0, 0, follow_symlinks=False)
    known = introspect_llama.facts(str(beside / "bin" / spec["targets"][0]))
    (beside / FACTS).write_text(json.dumps(known))
    (beside / "BUILD.json").write_text(json.dumps(spec["inputs"], indent=1, sort_keys=True))
    place(spec, beside)


def place(spec: dict[str, Any], beside: Path) -> None:
    """Record the files and give the build its name; the stamp is written last."""
    dest = Path(spec["dest"])
    shutil.rmtree(dest, ignore_errors=True)
    (beside / RECORD).write_text(json.dumps(stat_of(beside)))
    os.sync()
    beside.rename(dest)
    Path(spec["stamp"]).write_text(spec["digest"])
    os.sync()


def copy(spec: dict[str, Any], progress: Progress) -> None:
    """The build of a machine of the same inputs, at the same place, proved to run here."""
    dest = Path(spec["dest"])
    beside = dest.with_name(dest.name + ".new")
    receive(Spread(spec["spread"]), spec["user"], beside, dest, progress)
    progress.say("checking")
    check_program(beside / "bin" / spec["targets"][0], spec)
    place(spec, beside)


def build(spec: dict[str, Any], work: Path, progress: Progress) -> None:
    """Everything from the archive to the installed build."""
    progress.say("unpacking")
    top = unpack(spec, work)
    built = compile_all(spec, work, top, progress)
    progress.say("checking")
    check_program(built / spec["targets"][0], spec)
    progress.say("installing")
    install(spec, built)
    shutil.rmtree(work, ignore_errors=True)


def main(argv: list[str]) -> int:
    """Build per the spec file, or check an installed build."""
    if argv[0] == "check":
        return check(argv[1])
    spec = json.loads(Path(argv[0]).read_text())
    progress, work = Progress(spec["progress"]), Path(spec["work"])
    try:
        if spec.get("spread"):
            copy(spec, progress)
        else:
            build(spec, work, progress)
    except (BuildError, CopyError, OSError, introspect_llama.NoServer) as error:
        progress.say("failed", f"{error}")
        print(f"build: {error}", file=sys.stderr)
        return 1
    progress.say("done")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
