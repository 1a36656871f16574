"""Makes a Python environment from a requirements file in which every line carries a hash.

make_venv.py SPEC.json      SPEC: requirements, dest, stamp, digest, progress
make_venv.py check DEST     print JSON: are the installed files as they were installed?
"""

from __future__ import annotations

import json
import shutil
import stat
import subprocess
import sys
from pathlib import Path

RECORD = ".files.json"


def stat_of(directory: Path) -> dict[str, list[int]]:
    """Size, mtime and inode of every installed file; what Python compiles later is not counted."""
    found = {}
    for path in sorted(directory.rglob("*")):
        info = path.lstat()
        own = path.name not in (RECORD, ".stamp") and "__pycache__" not in path.parts
        if own and not stat.S_ISDIR(info.st_mode):
            name = str(path.relative_to(directory))
            found[name] = [info.st_size, info.st_mtime_ns, info.st_ino]
    return found


def check(dest: Path) -> list[str]:
    """What differs from what was installed, a phrase each; milliseconds, no Python of it runs."""
    try:
        wanted = json.loads((dest / RECORD).read_text())
    except (OSError, ValueError):
        return [f"{dest / RECORD}: does not vouch for this environment"]
    have = stat_of(dest.resolve())
    names = sorted(name for name in {*wanted, *have} if wanted.get(name) != have.get(name))
    return [f"{dest / name}: {'changed' if name in have else 'missing'}" for name in names]


def say(path: str, phase: str, message: str = "") -> None:
    """Replace the progress file that the laptop reads."""
    beside = Path(path).with_suffix(".new")
    beside.write_text(json.dumps({"phase": phase, "message": message}))
    beside.replace(path)


def steps(dest: Path, spec: dict[str, str]) -> list[list[str]]:
    """Commands in order; the last one proves that the environment works."""
    python = str(dest / "bin" / "python")
    pip = [python, "-m", "pip", "--no-input", "--disable-pip-version-check"]
    wheels = ["--no-cache-dir", "--no-compile", "--only-binary", ":all:", "--require-hashes"]
    return [
        ["python3", "-m", "venv", str(dest)],
        [*pip, "install", *wheels, "-r", spec["requirements"]],
        [*pip, "check"],
        [python, "-c", spec["proof"]],
    ]


def main(argv: list[str]) -> int:
    """Build the environment where its stamp will be; record and stamp are written last."""
    if argv[0] == "check":
        print(json.dumps({"wrong": check(Path(argv[1]))}))
        return 0
    spec = json.loads(Path(argv[0]).read_text())
    dest = Path(spec["dest"])
    say(spec["progress"], "installing", dest.name)
    shutil.rmtree(dest, ignore_errors=True)
    for step in steps(dest, spec):
        print("+", *step, flush=True)
        done = subprocess.run(step, capture_output=True, text=True, check=False)
        print(done.stdout, done.stderr, flush=True)
        if done.returncode != 0:
            last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
            say(spec["progress"], "failed", f"{Path(step[0]).name}: {' '.join(last)}")
            return 1
    (dest / RECORD).write_text(json.dumps(stat_of(dest)))
    Path(spec["stamp"]).write_text(spec["digest"])
    say(spec["progress"], "done")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
