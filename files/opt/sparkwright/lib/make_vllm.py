"""Makes a vLLM environment from a closed set of wheels: beside, patched, checked, put in place.

Runs as root in a transient unit; uv and everything out of the wheels run as the service account.
    make_vllm.py SPEC.json         make it; SPEC: dest, profile, requirements (text), wheels (their
                                   number), python, uv, user, cache, find_links, no_index, index,
                                   patches, checks, inputs; stamp, digest, progress; spread: copy
                                   another machine's environment instead (spread_job.py)
    make_vllm.py check DEST        print JSON: wrong (files), stale (.introspect.json is outdated)
    make_vllm.py introspect DEST   write .introspect.json anew
    make_vllm.py unpatch DEST      put the originals of patched files back
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import make_venv
import vllm_checks
import vllm_patches
from job_progress import Progress
from spread_job import Spread
from spread_tree import CopyError, receive
from vllm_install import InstallError, Uv, find_python

LIB = Path(__file__).resolve().parent
FACTS, SOURCE, RECORD = ".introspect.json", ".introspect.sha256", ".record.json"
# Not in the record of files: the stamp, and what can be written anew without the wheels.
IGNORED = (make_venv.RECORD, ".stamp", FACTS, SOURCE)


def prepare(spec: dict[str, Any]) -> Path:
    """An empty directory beside the destination and uv's cache, both the service account's."""
    dest = Path(spec["dest"])
    beside = dest.with_name(dest.name + ".new")
    shutil.rmtree(beside, ignore_errors=True)
    own(beside, spec["user"])
    own(Path(spec["cache"]), spec["user"])
    return beside


def own(place: Path, user: str) -> None:
    """A directory of the service account."""
    place.mkdir(parents=True, exist_ok=True)
    shutil.chown(place, user, user)


def install(spec: dict[str, Any], beside: Path, uv: Uv, progress: Progress) -> None:
    """The venv with its wheels, then root's. The cache stays when this is cut: nothing is fetched
    twice."""
    python = find_python(spec["python"])
    cache = Path(spec["cache"])
    requirements = cache / "requirements.txt"
    requirements.write_text(spec["requirements"])
    progress.say("installing", beside.name)
    uv.make(python, beside)
    uv.install(beside, requirements, progress)
    shutil.rmtree(cache)
    for top, folders, files in os.walk(beside):
        for name in (".", *folders, *files):
            os.chown(Path(top, name), 0, 0, follow_symlinks=False)


def patch(spec: dict[str, Any], beside: Path) -> list[dict[str, str]]:
    """Apply the profile's patches; what was done with each file."""
    site = vllm_checks.site_of(beside)
    version = vllm_checks.version_of(site, "vllm")
    if version is None:
        raise InstallError(f"{site}: no distribution named vllm; the wheel set lacks it")
    done = vllm_patches.apply_all(site, version, spec["patches"])
    for record in done:
        print(f"patch {record['patch']}: {record['path']}: {record['state']}", flush=True)
    return done


def verify(spec: dict[str, Any], beside: Path, uv: Uv) -> None:
    """Every check of the profile. Raises InstallError with all that is wrong."""
    own(Path(spec["cache"]), spec["user"])  # uv wants one, whatever it does
    wrong = vllm_checks.run_all(beside, spec["checks"], uv.words, uv.run)
    shutil.rmtree(spec["cache"])
    (beside / ".lock").unlink(missing_ok=True)  # uv's, writable for all
    if wrong:
        raise InstallError(" | ".join(wrong))


def introspect(venv: Path) -> None:
    """Write what this vLLM knows, and by which introspector that was found out."""
    site = vllm_checks.site_of(venv)  # not the venv: nothing of it is to run
    program = [sys.executable, str(LIB / "introspect_vllm.py"), str(site)]
    shown = subprocess.run(program, capture_output=True, text=True, check=False)
    if shown.returncode != 0:
        raise InstallError(f"introspect_vllm.py: {vllm_checks.last(shown.stderr)}")
    (venv / FACTS).write_text(shown.stdout)
    (venv / SOURCE).write_text(introspector())


def introspector() -> str:
    """sha256 over the introspector's own text: another one may read more out of a venv."""
    text = b"".join(path.read_bytes() for path in sorted(LIB.glob("introspect_*.py")))
    return hashlib.sha256(text).hexdigest()


def place(spec: dict[str, Any], beside: Path) -> None:
    """Put it where its name is; the stamp is written last."""
    dest = Path(spec["dest"])
    (beside / make_venv.RECORD).write_text(json.dumps(make_venv.stat_of(beside, IGNORED)))
    os.sync()
    old = dest.with_name(dest.name + ".old")
    shutil.rmtree(old, ignore_errors=True)
    if dest.exists():
        dest.rename(old)  # damaged; its server reads on from the open files
    beside.rename(dest)
    shutil.rmtree(old, ignore_errors=True)
    Path(spec["stamp"]).write_text(spec["digest"])
    os.sync()


def make(spec: dict[str, Any]) -> None:
    """Everything, in order. Raises InstallError, PatchError, OSError."""
    progress = Progress(spec["progress"])
    beside = prepare(spec)
    uv = Uv(spec, beside)
    if spec.get("spread"):
        receive(Spread(spec["spread"]), spec["user"], beside, Path(spec["dest"]), progress)
        progress.say("checking", "the environment before it is used")
        verify(spec, beside, uv)
        place(spec, beside)
        return
    install(spec, beside, uv, progress)
    progress.say("patching")
    patches = patch(spec, beside)
    progress.say("checking", "the environment before it is used")
    verify(spec, beside, uv)
    record = {"inputs": spec["inputs"], "patches": patches}
    (beside / RECORD).write_text(json.dumps(record, indent=1, sort_keys=True))
    (beside / "requirements.txt").write_text(spec["requirements"])
    introspect(beside)
    place(spec, beside)
    progress.say("done", Path(spec["dest"]).name)


def check(dest: Path) -> dict[str, Any]:
    """What differs from what was installed, without running any of it."""
    wrong = make_venv.check(dest, IGNORED)
    try:
        fresh = (dest / SOURCE).read_text() == introspector() and (dest / FACTS).stat().st_size > 0
    except OSError:
        fresh = False
    return {"wrong": wrong, "stale": not fresh}


def unpatch(venv: Path) -> None:
    """The files as the wheels had them. The next converge names that, and makes the venv anew."""
    site = vllm_checks.site_of(venv)
    records = json.loads((venv / RECORD).read_text())["patches"]
    for path in vllm_patches.revert_all(site, records):
        print(f"{site / path}: the original is back")


def main(argv: list[str]) -> int:
    """Make one per the spec file, or look at one that is there."""
    words = {"introspect": introspect, "unpatch": unpatch}
    if argv[0] == "check":
        print(json.dumps(check(Path(argv[1]))))
        return 0
    spec = {} if argv[0] in words else json.loads(Path(argv[0]).read_text())
    try:
        if spec:
            make(spec)
        else:
            words[argv[0]](Path(argv[1]))
    except (InstallError, CopyError, vllm_patches.PatchError, OSError) as error:
        if spec:
            Progress(spec["progress"]).say("failed", str(error))
        print(f"vllm: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
