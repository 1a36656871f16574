"""Makes a Python environment from a requirements file in which every line carries a hash.

make_venv.py SPEC.json      SPEC: requirements, dest, stamp, digest, progress, proof; index (the
                            only place that is asked) or nothing: as pip is set up here
make_venv.py check DEST     print JSON: are the installed files as they were installed?
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

RECORD = ".files.json"
Stats = dict[str, list[int]]


def stat_of(directory: Path, ignored: Collection[str] = (RECORD, ".stamp")) -> Stats:
    """Size, mtime and inode of every installed file; what Python compiles later is not counted.

    os.scandir and not Path.rglob: an environment of vLLM has 60,000 files.
    """
    found, waiting = {}, [""]
    while waiting:
        below = waiting.pop()
        with os.scandir(directory / below) as entries:
            for entry in entries:
                name = f"{below}{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    waiting += [f"{name}/"] if entry.name != "__pycache__" else []
                elif entry.name not in ignored:
                    info = entry.stat(follow_symlinks=False)
                    found[name] = [info.st_size, info.st_mtime_ns, info.st_ino]
    return dict(sorted(found.items()))


def check(dest: Path, ignored: Collection[str] = (RECORD, ".stamp")) -> list[str]:
    """What differs from what was installed, a phrase each; milliseconds, no Python of it runs."""
    try:
        text = (dest / RECORD).read_text()
        have = stat_of(dest.resolve(), ignored)
        if json.dumps(have) == text:  # reading it back costs as much again
            return []
        wanted = json.loads(text)
    except (OSError, ValueError):
        return [f"{dest / RECORD}: does not vouch for this environment"]
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
        [*pip, "install", *wheels, *index_words(spec), "-r", spec["requirements"]],
        [*pip, "check"],
        [python, "-c", spec["proof"]],
    ]


def index_words(spec: dict[str, str]) -> list[str]:
    """pip's words for the index that the spec names, if it does."""
    if not spec.get("index"):
        return []
    from urllib.parse import urlsplit  # here: whoever only checks does not pay for it

    host = urlsplit(spec["index"]).netloc
    return ["--index-url", spec["index"], *(["--trusted-host", host] if host else [])]


def main(argv: list[str]) -> int:
    """Build the environment where its stamp will be; record and stamp are written last."""
    if argv[0] == "check":
        print(json.dumps({"wrong": check(Path(argv[1]))}))
        return 0
    spec = json.loads(Path(argv[0]).read_text())
    dest = Path(spec["dest"])
    say(spec["progress"], "installing", dest.name)
    shutil.rmtree(dest, ignore_errors=True)
    # pip's own settings may name further indexes, which an isolated machine would wait for.
    env = {**os.environ, "PIP_CONFIG_FILE": os.devnull} if spec.get("index") else None
    for step in steps(dest, spec):
        print("+", *step, flush=True)
        done = subprocess.run(step, capture_output=True, text=True, env=env, check=False)
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
